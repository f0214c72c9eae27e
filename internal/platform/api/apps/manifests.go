package apps

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/manifest"
	"ingot/internal/platform/services"
)

func (a *API) manifestRoutes(g *web.Group) {
	limits := web.Limits{Body: manifest.MaxBytes + 1, Read: web.DefaultLimits.Read, Write: web.DefaultLimits.Write}
	g.Within(limits).Handle(http.MethodPost, "/v3/spaces/{guid}/actions/apply_manifest", rest.Write, a.applyManifest)
	g.Within(limits).Handle(http.MethodPost, "/v3/spaces/{guid}/manifest_diff", rest.Write, a.diffManifest)
	g.Handle(http.MethodGet, "/v3/apps/{guid}/manifest", rest.Read, a.getManifest)
}

// readManifest reads the body, whose content type must be YAML.
func (a *API) readManifest(r *http.Request) (*manifest.Manifest, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !strings.HasSuffix(kind, "yaml") && !strings.HasSuffix(kind, "yml") {
		return nil, fault.New(fault.BadRequest, "Bad request: Content-Type must be yaml")
	}
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	rules, err := a.ManifestRules(r)
	if err != nil {
		return nil, err
	}
	return manifest.Parse(text, rules...)
}

// ManifestRules returns what manifests may contain only while features are enabled.
func (a *API) ManifestRules(r *http.Request) (rules []manifest.Rule, err error) {
	hash, err := rest.View(a.Server, r, func(req *rest.Request) (bool, error) {
		return rest.FlagOn(req.Tx, rest.FlagHashRouting)
	})
	if err != nil {
		return nil, err
	}
	if hash {
		rules = append(rules, manifest.HashRouting)
	}
	return rules, nil
}

func (a *API) applier(req *rest.Request, in SpaceOf) (*manifest.Applier, error) {
	space, err := in(req)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(appFeatures))
	for _, f := range appFeatures {
		names = append(names, f.name)
	}
	return &manifest.Applier{
		Platform: a.Platform, Actor: req.Caller.Actor(), Space: space, Features: names,
		MayCreateRoutes: func() error { return req.NeedFlag("route_creation") },
		MayUseImages:    func() error { return rest.NeedEnabled(req.Tx, rest.FlagDocker) },
		Bind: func(tx platform.Tx, app *platform.App, i *platform.ServiceInstance,
			s manifest.Service) (*platform.Job, error) {
			_, job, err := a.Services.Bind(tx, req.Caller.Actor(), services.Bind{
				Type: platform.BindingApp, Instance: i, App: app, Name: s.BindingName, Parameters: s.Parameters,
			})
			return job, err
		},
	}, nil
}

// applyManifest applies the manifest completely or not at all, and responds with a
// job that has the result. Errors of the apps themselves are returned immediately.
func (a *API) applyManifest(w http.ResponseWriter, r *http.Request) error {
	m, err := a.readManifest(r)
	if err != nil {
		return err
	}
	job := platform.Job{Operation: "space.apply_manifest", State: platform.JobComplete, ResourceType: "space",
		ResourceGUID: web.Param(r, "guid")}
	for _, app := range m.Apps {
		job.Warnings = append(job.Warnings, app.Warnings...)
	}
	pending, warnings, failed := a.ApplyManifest(r, rest.SpaceFor(platform.Develop), m)
	job.Warnings = append(job.Warnings, warnings...)
	var refused *refusedApp
	if errors.As(failed, &refused) {
		return refused.error
	}
	if failed != nil {
		if job.Errors, err = a.jobErrors(r, failed); err != nil {
			return err
		}
		job.State = platform.JobFailed
	}
	var stored *platform.Job
	err = a.Store.Update(r.Context(), func(tx platform.Tx) (err error) {
		if failed == nil && len(pending) > 0 {
			stored, err = a.Services.Follow(tx, rest.CallerOf(r).Actor(), job.Operation, job.ResourceType, job.ResourceGUID,
				pending, job.Warnings)
			return err
		}
		stored, err = a.Platform.CreateJob(tx, job)
		return err
	})
	if err != nil {
		return err
	}
	a.Accepted(w, r, stored)
	return nil
}

// refusedApp is the error of an app that cannot be created. It is returned
// immediately, not by the job.
type refusedApp struct{ error }

// Unwrap lets a transaction recognize errors after which it is retried.
func (e *refusedApp) Unwrap() error { return e.error }

// SpaceOf returns a space if the caller may develop apps there.
type SpaceOf func(*rest.Request) (*platform.Space, error)

// ApplyManifest creates and changes all apps of a manifest in one transaction, so that an
// error in one changes none. It returns the jobs that complete the bindings, and
// warnings for the user.
func (a *API) ApplyManifest(r *http.Request, in SpaceOf, m *manifest.Manifest) (pending []services.Child,
	warnings []string, err error) {
	err = a.Store.Update(r.Context(), func(tx platform.Tx) error {
		pending, warnings = nil, nil // the transaction may be retried
		req := rest.NewRequest(tx, r)
		applier, err := a.applier(req, in)
		if err != nil {
			return &refusedApp{err}
		}
		for _, app := range m.Apps {
			if err := applier.Create(tx, app); err != nil {
				return &refusedApp{err}
			}
		}
		for _, app := range m.Apps {
			applier.Pending = nil
			if err := a.applyOne(tx, req, applier, app); err != nil {
				return err
			}
			for _, j := range applier.Pending {
				pending = append(pending, services.Child{Job: j.GUID, Prefix: "For application '" + app.Name + "': "})
			}
		}
		warnings = applier.Warnings
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return pending, warnings, nil
}

// applyOne applies the entry of one app.
func (a *API) applyOne(tx platform.Tx, req *rest.Request, applier *manifest.Applier, app *manifest.App) error {
	if err := applier.Apply(tx, app); err != nil {
		return err
	}
	found, err := tx.Apps().First(platform.Where("space_guid", applier.Space.GUID).And(platform.In("name", app.Name)))
	if err != nil {
		return err
	}
	var data map[string]any
	if len(app.Warnings) > 0 {
		data = map[string]any{"warnings": app.Warnings}
	}
	return a.Platform.RecordApp(tx, "audit.app.apply_manifest", req.Caller.Actor(), found, data)
}

// jobErrors returns an error as clients may see it; unknown errors are not changed.
func (a *API) jobErrors(r *http.Request, err error) ([]platform.JobError, error) {
	var e *fault.Error
	if !errors.As(err, &e) || e.Code == fault.Internal {
		return nil, err
	}
	a.Log.InfoContext(r.Context(), "a job failed", "error", err)
	var out []platform.JobError
	for _, message := range e.Messages() {
		out = append(out, platform.JobError{Code: web.Number(e.Code), Title: "CF-" + string(e.Code), Detail: message})
	}
	return out, nil
}

func (a *API) diffManifest(w http.ResponseWriter, r *http.Request) error {
	m, err := a.readManifest(r)
	if err != nil {
		return err
	}
	changes, err := rest.View(a.Server, r, func(req *rest.Request) ([]manifest.Change, error) {
		space, err := req.Space(platform.Develop)
		if err != nil {
			return nil, err
		}
		return manifest.Diff(req.Tx, space, m)
	})
	return web.Answer(w, http.StatusCreated, map[string]any{"diff": changes}, err)
}

func (a *API) getManifest(w http.ResponseWriter, r *http.Request) error {
	text, err := rest.View(a.Server, r, func(req *rest.Request) ([]byte, error) {
		app, err := Apps.Find(req)
		if err != nil {
			return nil, err
		}
		show, err := req.ShowsSecrets(app.GUID)
		if err == nil && !show {
			err = platform.Forbidden()
		}
		if err != nil {
			return nil, err
		}
		return manifest.Of(req.Tx, app)
	})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-yaml")
	_, _ = w.Write(text)
	return nil
}
