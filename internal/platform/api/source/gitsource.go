package source

import (
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/rest"
)

// hookPath begins the path of webhooks; the guid of the source follows.
const hookPath = "/v3/ingot/git-hooks/"

// maxHook limits the body of a webhook.
const maxHook = 4 << 20

// gitRoutes registers the routes of git sources.
func (a *API) gitRoutes(g *web.Group) {
	const path = "/v3/ingot/apps/{guid}/git-source"
	g.Handle(http.MethodGet, path, rest.Read, a.showSource)
	g.Handle(http.MethodPut, path, rest.Write, a.setSource)
	g.Handle(http.MethodDelete, path, rest.Write, a.removeSource)
	g.Handle(http.MethodPost, path+"/secret", rest.Write, a.rotateSecret)
	g.Within(web.Limits{Body: maxHook, Read: time.Minute, Write: time.Minute}).Handle(http.MethodPost, hookPath+"{guid}",
		web.Own("the signature of the webhook, with the secret of the git source"), a.hook)
}

// sourceBody is a git source in responses. It has no secrets.
type sourceBody struct {
	rest.ResourceBody
	URL         string  `json:"url"`
	Branch      *string `json:"branch"`
	Folder      *string `json:"folder"`
	Username    *string `json:"username"`
	HasPassword bool    `json:"has_password"`
	Owner       string  `json:"owner"`
	Commit      *string `json:"commit"`
	Subject     *string `json:"subject"`
	DeployedAt  *string `json:"deployed_at"`
	Error       *string `json:"error"`
	Webhook     struct {
		URL     string `json:"url"`
		Enabled bool   `json:"enabled"`
		// Secret is only in the response to its rotation.
		Secret string `json:"secret,omitempty"`
	} `json:"webhook"`
	Links rest.Links `json:"links"`
}

func present(req *rest.Request, s *platform.GitSource) *sourceBody {
	b := &sourceBody{ResourceBody: rest.PresentResource(&s.Resource), URL: s.URL, Branch: rest.OrNull(s.Branch),
		Folder: rest.OrNull(s.Folder), Username: rest.OrNull(s.Username), HasPassword: s.Password != "", Owner: s.OwnerName,
		Commit: rest.OrNull(s.Commit), Subject: rest.OrNull(s.Subject), Error: rest.OrNull(s.Error)}
	if !s.Deployed.IsZero() {
		b.DeployedAt = rest.OrNull(rest.Timestamp(s.Deployed))
	}
	b.Webhook.URL, b.Webhook.Enabled = req.Base+hookPath+rest.Escape(s.GUID), s.Secret != ""
	app := rest.Escape(s.AppGUID)
	b.Links = rest.Links{"self": req.Link("/ingot/apps/", app, "/git-source"), "app": req.Link("/apps/", app)}
	return b
}

// sourceOf returns the app of the path and its source, for developers.
func sourceOf(req *rest.Request) (*platform.App, *platform.GitSource, error) {
	app, err := req.App(platform.Develop)
	if err != nil {
		return nil, nil, err
	}
	src, err := actions.GitSourceOf(req.Tx, app.GUID)
	if err == nil && src == nil {
		err = fault.New(fault.NotFound, "The app has no git repository")
	}
	return app, src, err
}

func (a *API) showSource(w http.ResponseWriter, r *http.Request) error {
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		_, src, err := sourceOf(req)
		if err != nil {
			return nil, err
		}
		return present(req, src), nil
	})
}

// setSource changes the source of an app without a deployment.
func (a *API) setSource(w http.ResponseWriter, r *http.Request) error {
	var o gitOrder
	if err := web.DecodeStrict(r, &o); err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		app, err := req.App(platform.Develop)
		if err != nil {
			return nil, err
		}
		old, err := actions.GitSourceOf(req.Tx, app.GUID)
		if err != nil {
			return nil, err
		}
		src, err := o.checked(old)
		if err != nil {
			return nil, err
		}
		if err := a.Platform.SetGitSource(req.Tx, req.Caller.Actor(), app, src); err != nil {
			return nil, err
		}
		if src, err = actions.GitSourceOf(req.Tx, app.GUID); err != nil {
			return nil, err
		}
		return present(req, src), nil
	})
}

func (a *API) removeSource(w http.ResponseWriter, r *http.Request) error {
	_, err := rest.Update(a.Server, r, func(req *rest.Request) (*platform.GitSource, error) {
		app, src, err := sourceOf(req)
		if err != nil {
			return nil, err
		}
		return src, a.Platform.RemoveGitSource(req.Tx, req.Caller.Actor(), app, src)
	})
	return web.Answer(w, http.StatusNoContent, nil, err)
}

// rotateSecret gives a source a new secret for webhooks: only this response has it.
func (a *API) rotateSecret(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	return a.Perform(w, r, http.StatusCreated, func(req *rest.Request) (any, error) {
		app, src, err := sourceOf(req)
		if err != nil {
			return nil, err
		}
		if err := a.Platform.RotateGitSecret(req.Tx, req.Caller.Actor(), app, src); err != nil {
			return nil, err
		}
		b := present(req, src)
		b.Webhook.Secret = src.Secret
		return b, nil
	})
}
