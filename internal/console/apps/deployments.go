package apps

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// took returns how long a build took, or 0 while it is in progress.
func took(b *cfapi.Build) time.Duration {
	if b.State == "STAGING" {
		return 0
	}
	return b.UpdatedAt.Sub(b.CreatedAt)
}

type revision struct {
	cfapi.Revision
	Command string `json:"-"` // of the cf client, to deploy it

	Relationships struct {
		App cfapi.To `json:"app"`
	} `json:"relationships"`
}

type droplet struct {
	cfapi.Droplet
	Current bool   `json:"-"`
	Command string `json:"-"`
}

type deploymentsData struct {
	Timeline  []step
	Revisions []revision
	Running   map[string]bool // guids of revisions
	Droplets  []droplet
}

// step is an entry of the timeline: a deployment or a build.
type step struct {
	At         time.Time
	Took       time.Duration // 0 while it is in progress
	Deployment *cfapi.Deployment
	Build      *cfapi.Build
	Bar        *rollout // of a deployment in progress
	Cancel     string
	Continue   string
}

// rollout shows how many instances are of the new version.
type rollout struct{ New, Old, Percent int }

// loadDeployments is GET /console/apps/GUID/deployments.
func loadDeployments(_ *http.Request, call *page.Caller, d *Data) (any, error) {
	data := &deploymentsData{Running: map[string]bool{}}
	recent := func() url.Values {
		return url.Values{"app_guids": {d.App.GUID}, "order_by": {"-created_at"}, "per_page": {"20"}}
	}
	var deployments []cfapi.Deployment
	var builds []cfapi.Build
	var deployed []cfapi.Revision
	var current cfapi.Droplet
	err := page.Together(
		page.List(call, &deployments, "/v3/deployments", recent()),
		page.List(call, &builds, "/v3/builds", recent()),
		page.List(call, &data.Revisions, "/v3/apps/"+d.App.GUID+"/revisions", url.Values{"order_by": {"-created_at"},
			"per_page": {"20"}}),
		page.List(call, &deployed, "/v3/apps/"+d.App.GUID+"/revisions/deployed", nil),
		page.List(call, &data.Droplets, "/v3/apps/"+d.App.GUID+"/droplets", url.Values{"order_by": {"-created_at"},
			"per_page": {"10"}, "states": {"STAGED"}}),
		func() error {
			err := call.Get(&current, "/v3/apps/"+d.App.GUID+"/droplets/current", nil)
			if page.Gone(err) {
				return nil // the app was never built
			}
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	for _, one := range deployed {
		data.Running[one.GUID] = true
	}
	for i := range data.Revisions {
		data.Revisions[i].Command = page.Command("cf", "rollback", d.App.Name, "--version",
			strconv.Itoa(data.Revisions[i].Version))
	}
	for i := range data.Droplets {
		one := &data.Droplets[i]
		one.Current = one.GUID == current.GUID
		one.Command = page.Command("cf", "set-droplet", d.App.Name, one.GUID)
	}
	data.Timeline, err = timeline(call, d, deployments, builds)
	return data, err
}

// timeline returns deployments and builds, newest first.
func timeline(call *page.Caller, d *Data, deployments []cfapi.Deployment, builds []cfapi.Build) ([]step, error) {
	var steps []step
	for i := range builds {
		steps = append(steps, step{At: builds[i].CreatedAt, Took: took(&builds[i]), Build: &builds[i]})
	}
	for i := range deployments {
		one := step{At: deployments[i].CreatedAt, Took: deployments[i].UpdatedAt.Sub(deployments[i].CreatedAt),
			Deployment: &deployments[i]}
		if deployments[i].Status.Value == "ACTIVE" {
			one.Took = 0
			one.Cancel, one.Continue = page.Command("cf", "cancel-deployment", d.App.Name),
				page.Command("cf", "continue-deployment", d.App.Name)
			processes, err := page.All[cfapi.Process](call, "/v3/processes", url.Values{"app_guids": {d.App.GUID},
				"types": {"web"},
				"embed": {"process_instances"}})
			if err != nil {
				return nil, err
			}
			one.Bar = progress(deployments[i], processes)
		}
		steps = append(steps, one)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return b.At.Compare(a.At) })
	return steps, nil
}

// progress counts the running instances of a deployment's processes and of the others.
func progress(d cfapi.Deployment, processes []cfapi.Process) *rollout {
	var b rollout
	for _, p := range processes {
		fresh := slices.ContainsFunc(d.NewProcesses, func(one cfapi.GUID) bool { return one.GUID == p.GUID })
		for _, in := range p.Embedded {
			switch {
			case in.State != cfapi.Running:
			case fresh:
				b.New++
			default:
				b.Old++
			}
		}
	}
	b.Percent = 100 * b.New / max(1, b.New+b.Old)
	return &b
}

// stagingSource begins the source of a build's lines.
const stagingSource = "STG"

type buildData struct {
	cfapi.Build
	Took    time.Duration
	Lines   []line
	Cut     bool // lines are missing
	Command string
}

// build is GET /console/apps/GUID/builds/GUID: the log of a build.
func (c *pages) build(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return ShowTab(c.Console, w, r, s, "build", func(r *http.Request, call *page.Caller, d *Data) (any, error) {
		var found cfapi.Build
		if err := call.Get(&found, "/v3/builds/"+url.PathEscape(web.Param(r, "build")), nil); err != nil {
			return nil, err
		}
		if found.Relationships.App.GUID() != d.App.GUID {
			return nil, fault.New(fault.NotFound, "The app has no such build.")
		}
		data := &buildData{Build: found, Took: took(&found), Command: page.Command("cf", "logs", d.App.Name, "--recent")}
		if !d.MayReadLogs {
			return data, nil
		}
		// Times of the API are whole seconds.
		from, to := found.CreatedAt, found.UpdatedAt.Add(2*time.Second)
		if data.Took == 0 {
			to = time.Now().Add(time.Second)
		}
		lines, err := readLines(call, d.App.GUID, url.Values{
			"start_time": {strconv.FormatInt(from.UnixNano(), 10)}, "end_time": {strconv.FormatInt(to.UnixNano(), 10)},
			"limit": {strconv.Itoa(maxLines)},
		})
		data.Cut = len(lines) == maxLines
		data.Lines = slices.DeleteFunc(lines, func(l line) bool { return !strings.HasPrefix(l.Source, stagingSource) })
		return data, err
	})
}

// actOnDeployment is POST /console/apps/GUID/deployments/GUID/cancel and continue.
func (c *pages) actOnDeployment(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	action, said := web.Param(r, "action"), "canceled"
	switch action {
	case "cancel":
	case "continue":
		said = "continue"
	default:
		return fault.New(fault.NotFound, "There is no such action.")
	}
	path := "/v3/deployments/" + url.PathEscape(web.Param(r, "deployment")) + "/actions/" + action
	if err := c.Platform(r, s).Do(http.MethodPost, path, nil, nil); err != nil {
		return err
	}
	return backTo(w, r, web.Param(r, "guid"), "deployments", said)
}

// rollBack is POST /console/apps/GUID/revisions/GUID/deploy.
func (c *pages) rollBack(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.deploy(w, r, s, "revision", "rollback")
}

// deployDroplet is POST /console/apps/GUID/droplets/GUID/deploy.
func (c *pages) deployDroplet(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.deploy(w, r, s, "droplet", "droplet")
}

// deploy deploys a revision or a droplet, as the parameter of the same name says.
func (c *pages) deploy(w http.ResponseWriter, r *http.Request, s *page.Session, what, said string) error {
	guid := web.Param(r, "guid")
	body := map[string]any{
		what:            map[string]string{"guid": web.Param(r, what)},
		"relationships": map[string]any{"app": cfapi.Relate(guid)},
	}
	if err := c.Platform(r, s).Do(http.MethodPost, "/v3/deployments", body, nil); err != nil {
		return err
	}
	return backTo(w, r, guid, "deployments", said)
}
