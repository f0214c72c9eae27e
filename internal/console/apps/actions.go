package apps

import (
	"net/http"
	"net/url"
	"strconv"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// said are the results of changes, by the word in the address.
var said = map[string]string{
	"start": "The app is starting.", "stop": "The app was stopped.", "restart": "The app is restarting.",
	"scale":                     "The process was scaled. No instance restarts for it.",
	"scale-later":               "Saved. Running instances get their new memory and disk when they restart.",
	"scale-restart":             "The process was scaled. The app is restarting with its new memory and disk.",
	manifestSaid:                "The manifest was applied.",
	manifestSaid + needsRestart: "The manifest was applied. Some changes take effect after a restart.",
	manifestSaid + needsRestage: "The manifest was applied. Some changes take effect after a restage.",
	sidecarSaid + "saved":       "The sidecar was saved.", sidecarSaid + "removed": "The sidecar was removed.",
	"domain": "The domain was created.", "domain-deleted": "The domain was deleted.",
	"instance":    "The instance is restarting.",
	"environment": "Saved. It takes effect after a restart of the app.",
	"mapped":      "The route was mapped.", "unmapped": "The route was unmapped.",
	"task": "The task was started.", "canceled": "It is being canceled.",
	"continue": "The deployment continues.",
	"renamed":  "The app was renamed.", "deleted": "The app is being deleted.",
	"git": "The git repository was saved.", "git-removed": "The git repository was removed.",
	"rollback": "The revision is being deployed.", "droplet": "The droplet is being deployed.",
}

// changes returns the targets of forms.
func (c *pages) changes() map[string]page.Handler {
	platform := page.API(c.Platform)
	return map[string]page.Handler{
		"/apps/{guid}/{action}": c.actOnApp,
		"/apps/{guid}/environment/set": platform.Edit(page.Edit{
			Method: http.MethodPatch, Path: "/v3/apps/{guid}/environment_variables", Body: variablesOf,
			To: "/apps/{guid}/environment", Said: "environment",
		}),
		"/apps/new/image":                   c.deployImage,
		"/apps/new/sample":                  c.deploySample,
		"/apps/{guid}/deploy/image":         c.deployImage,
		"/apps/{guid}/environment/text":     c.setText,
		"/apps/{guid}/settings/rename":      c.renameApp,
		"/apps/{guid}/settings/delete":      c.deleteApp,
		"/apps/{guid}/routes/map":           c.mapRoute,
		"/apps/{guid}/routes/{route}/unmap": c.unmapRoute,
		"/apps/{guid}/sidecars/save":        c.saveSidecar,
		"/apps/{guid}/sidecars/{sidecar}/delete": platform.Edit(page.Edit{
			Method: http.MethodDelete, Path: "/v3/sidecars/{sidecar}", To: "/apps/{guid}/sidecars",
			Said: sidecarSaid + "removed",
		}),
		"/apps/{guid}/tasks/run": c.runTask,
		"/apps/{guid}/tasks/{task}/cancel": platform.Edit(page.Edit{
			Method: http.MethodPost, Path: "/v3/tasks/{task}/actions/cancel", To: "/apps/{guid}/tasks/{task}",
			Said: "canceled",
		}),
		"/domains/create":                                c.createDomain,
		"/domains/{domain}/delete":                       c.deleteDomain,
		"/apps/{guid}/deployments/{deployment}/{action}": c.actOnDeployment,
		"/apps/{guid}/revisions/{revision}/deploy":       c.rollBack,
		"/apps/{guid}/droplets/{droplet}/deploy":         c.deployDroplet,
		"/apps/{guid}/processes/{type}/scale":            c.scaleProcess,
		"/apps/{guid}/processes/{type}/{index}/restart": platform.Edit(page.Edit{
			Method: http.MethodDelete, Path: "/v3/apps/{guid}/processes/{type}/instances/{index}",
			To: "/apps/{guid}", Said: "instance",
		}),
	}
}

// back sends the browser to a page of an app, which says what was done.
func back(w http.ResponseWriter, r *http.Request, guid, said string) error {
	return backTo(w, r, guid, "", said)
}

func backTo(w http.ResponseWriter, r *http.Request, guid, tab, said string) error {
	to := "/apps/" + url.PathEscape(guid)
	if tab != "" {
		to += "/" + tab
	}
	return page.GoTo(w, r, to, said)
}

// actOnApp is POST /console/apps/GUID/start, stop, restart and restage.
func (c *pages) actOnApp(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid, action := web.Param(r, "guid"), web.Param(r, "action")
	switch action {
	case "restage":
		return c.restage(w, r, s, guid)
	case "start", "stop", "restart":
	default:
		return fault.New(fault.NotFound, "There is no such action.")
	}
	if err := c.Platform(r, s).Do(http.MethodPost, "/v3/apps/"+url.PathEscape(guid)+"/actions/"+action, nil,
		nil); err != nil {
		return err
	}
	if to := r.PostForm.Get("to"); to != "" {
		return page.GoBack(w, r, to, action)
	}
	return back(w, r, guid, action)
}

// scaleProcess is POST /console/apps/GUID/processes/TYPE/scale, with the fields of sizesOf. It changes all of them at
// once; the field restart also restarts the app if its instances need that.
func (c *pages) scaleProcess(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, guid := c.Platform(r, s), web.Param(r, "guid")
	body, err := sizesOf(r.PostForm)
	if err != nil {
		return err
	}
	at := "/v3/apps/" + url.PathEscape(guid)
	path := at + "/processes/" + url.PathEscape(web.Param(r, "type"))
	var app cfapi.App
	var before, after cfapi.Process
	if err := page.Together(func() error { return call.Get(&app, at, nil) },
		func() error { return call.Get(&before, path, nil) }); err != nil {
		return err
	}
	if err := call.Do(http.MethodPost, path+"/actions/scale", body, &after); err != nil {
		return err
	}
	switch {
	case !app.Started() || before.MemoryMB == after.MemoryMB && before.DiskMB == after.DiskMB:
		return back(w, r, guid, "scale")
	case r.PostForm.Get("restart") == "":
		return back(w, r, guid, "scale-later")
	}
	if err := call.Do(http.MethodPost, at+"/actions/restart", nil, nil); err != nil {
		return err
	}
	return back(w, r, guid, "scale-restart")
}

// sizesOf reads the form of a process: the fields instances, memory_in_mb and disk_in_mb.
func sizesOf(form url.Values) (any, error) {
	body := map[string]int{}
	for _, field := range []string{"instances", "memory_in_mb", "disk_in_mb"} {
		text := form.Get(field)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fault.New(fault.Unprocessable, "%s must be a number, not %.50q.", field, text)
		}
		body[field] = n
	}
	return body, nil
}
