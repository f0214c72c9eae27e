package services

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

type rotateCredentialsFlags struct {
	Apps      []string      `long:"app" value-name:"APP" description:"Rotate the credentials of this app only; may be repeated"`
	Grace     time.Duration `long:"grace" value-name:"DURATION" default:"10m" description:"How long the old credentials stay valid after nothing uses them (default: 10m)"`
	Keys      bool          `long:"keys" description:"Rotate service keys as well"`
	NoRestart bool          `long:"no-restart" description:"Do not restart apps; the old credentials stay valid while instances use them"`
	Force     bool          `long:"force" description:"Revoke the old credentials after the grace period even if instances use them"`
	Wait      bool          `long:"wait" description:"Wait until the old credentials are revoked"`
}

// rotationRow is the rotation of one binding.
type rotationRow struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // app or key
	State    string `json:"state"`
	Method   string `json:"method"`
	RevokeAt string `json:"revoke_at,omitempty"`
	Message  string `json:"message,omitempty"`
	grace    time.Duration
}

// how returns how the app gets its new credentials.
func (r rotationRow) how() string {
	switch {
	case r.State == "failed":
		return "no new credentials"
	case r.Kind == "key":
		return "new key"
	case r.Method == "restart":
		return "rolling restart"
	case r.Method == "files":
		return "new service files"
	}
	return "no restart"
}

// until returns when the old credentials stop working.
func (r rotationRow) until() string {
	switch r.State {
	case "failed":
		return "stay valid"
	case "revoked":
		return "revoked"
	case "grace":
		if at, err := time.Parse(time.RFC3339, r.RevokeAt); err == nil {
			return "valid until " + at.Local().Format(time.DateTime) //nolint:gosmopolitan // for the user
		}
	}
	if r.grace == 0 {
		return "valid until no instance uses them"
	}
	return fmt.Sprintf("valid until %s after no instance uses them", r.grace)
}

func rotateCredentials(ctx context.Context, s *core.Session, w core.Words,
	f *rotateCredentialsFlags) (core.Result, error) {
	if f.Grace < 0 || f.Grace > 7*24*time.Hour || f.Grace%time.Second != 0 {
		return nil, core.UsageError("--grace must be whole seconds between 0s and 168h")
	}
	s.Doing("Rotating the credentials of service instance %s", w["SERVICE"])
	instance, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	body := map[string]any{"grace_seconds": int(f.Grace.Seconds()), "keys": f.Keys, "restart": !f.NoRestart,
		"force": f.Force}
	if len(f.Apps) > 0 {
		guids := []string{}
		for _, name := range f.Apps {
			app, err := s.App(ctx, name)
			if err != nil {
				return nil, err
			}
			guids = append(guids, app.GUID)
		}
		body["apps"] = guids
	}
	at := "/v3/ingot/service_instances/" + instance.GUID
	reply, err := s.API.Post(ctx, at+"/rotate", body, nil)
	if err != nil {
		return nil, err
	}
	s.Progress.Step("New credentials of service instance "+instance.Name, 0)
	job := reply.Header.Get("Location")
	failed := s.API.Job(ctx, reply)
	if failed != nil && client.Status(failed) != http.StatusUnprocessableEntity {
		return nil, failed
	}
	rows, err := rotations(ctx, s, at, instance, job[strings.LastIndex(job, "/")+1:], f.Wait)
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, &core.Problem{
			What: "Not all credentials of service instance " + instance.Name + " were rotated.", Why: failed.Error(),
			Try: "the bindings keep their credentials; try again, or ask the operator of the service broker", Err: failed,
		}
	}
	s.OK()
	return rows, nil
}

// rotations lists the rotations of one request, with wait when all are over.
func rotations(ctx context.Context, s *core.Session, at string, instance cfapi.ServiceInstance, job string,
	wait bool) (*core.Listing[rotationRow], error) {
	if wait {
		s.Progress.Step("Revoking the old credentials of service instance "+instance.Name, 0)
	}
	var all []cfapi.Rotation
	err := client.Poll(ctx, func() (bool, error) {
		var err error
		all, err = client.List[cfapi.Rotation](ctx, s.API, at+"/rotations",
			url.Values{"job_guids": {job}, "per_page": {"5000"}})
		going := slices.ContainsFunc(all, func(r cfapi.Rotation) bool { return r.State != "revoked" && r.State != "failed" })
		return !wait || !going, err
	})
	if err != nil {
		return nil, err
	}
	names, err := boundNames(ctx, s, instance, all)
	if err != nil {
		return nil, err
	}
	out := &core.Listing[rotationRow]{
		Key: "rotations", Heading: []string{"name", "type", "new credentials", "old credentials", "message"},
		Cells: func(r rotationRow) []string { return []string{r.Name, r.Kind, r.how(), r.until(), r.Message} },
	}
	for _, r := range all {
		row := rotationRow{State: r.State, Method: r.Method, RevokeAt: r.RevokeAt, Message: r.Description, Kind: "key",
			grace: time.Duration(r.GraceSeconds) * time.Second}
		row.Name = names[r.Relationships.Binding.GUID()]
		if app := r.Relationships.App.GUID(); app != "" {
			row.Kind, row.Name = "app", names[app]
		}
		out.Rows = append(out.Rows, row)
	}
	slices.SortFunc(out.Rows, func(x, y rotationRow) int { return strings.Compare(x.Kind+" "+x.Name, y.Kind+" "+y.Name) })
	return out, nil
}

// boundNames returns the names of the apps and keys of rotations by their guids.
func boundNames(ctx context.Context, s *core.Session, instance cfapi.ServiceInstance,
	all []cfapi.Rotation) (map[string]string, error) {
	names := map[string]string{}
	var apps []string
	keys := false
	for _, r := range all {
		if app := r.Relationships.App.GUID(); app != "" {
			apps = append(apps, app)
		} else {
			keys = true
		}
	}
	if len(apps) > 0 {
		found, err := client.List[cfapi.App](ctx, s.API, "/v3/apps", url.Values{"guids": {strings.Join(apps, ",")},
			"per_page": {"5000"}})
		if err != nil {
			return nil, err
		}
		maps.Copy(names, cfapi.Names(found))
	}
	if keys {
		found, err := client.List[cfapi.Binding](ctx, s.API, "/v3/service_credential_bindings",
			url.Values{"type": {"key"}, "service_instance_guids": {instance.GUID}, "per_page": {"5000"}})
		if err != nil {
			return nil, err
		}
		maps.Copy(names, cfapi.Names(found))
	}
	return names, nil
}

func rotateCommands() []*core.Command {
	return core.InGroup(core.GroupServices,
		core.Entry("rotate-credentials",
			"SERVICE [--app APP]... [--grace DURATION] [--keys] [--no-restart] [--force] [--wait]",
			"Replace the credentials of a service instance", core.NeedsSpace, rotateCredentials,
			"my-db", "my-db --app my-app --grace 1h --wait").Slow().
			Explained("Bound apps get new credentials: by a rolling restart, or in their service files if their manifest says "+
				"'on-credentials'. The old ones are revoked when no instance uses them and the grace period is over."),
	)
}
