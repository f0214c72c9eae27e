package apps

import (
	"net/http"
	"net/url"
	"strconv"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

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

// actOnApp is POST /console/apps/GUID/start, stop and restart.
func (c *pages) actOnApp(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid, action := web.Param(r, "guid"), web.Param(r, "action")
	switch action {
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

// scale is POST /console/apps/GUID/processes/TYPE/scale, with the fields instances,
// memory_in_mb and disk_in_mb.
func (c *pages) scale(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	body := map[string]int{}
	for _, field := range []string{"instances", "memory_in_mb", "disk_in_mb"} {
		text := r.PostForm.Get(field)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return fault.New(fault.Unprocessable, "%s must be a number, not %.50q.", field, text)
		}
		body[field] = n
	}
	path := "/v3/apps/" + url.PathEscape(guid) + "/processes/" + url.PathEscape(web.Param(r, "type")) + "/actions/scale"
	if err := c.Platform(r, s).Do(http.MethodPost, path, body, nil); err != nil {
		return err
	}
	return back(w, r, guid, "scale")
}

// restartInstance is POST /console/apps/GUID/processes/TYPE/INDEX/restart.
func (c *pages) restartInstance(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	path := "/v3/apps/" + url.PathEscape(guid) + "/processes/" + url.PathEscape(web.Param(r, "type")) + "/instances/" +
		url.PathEscape(web.Param(r, "index"))
	if err := c.Platform(r, s).Do(http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	return back(w, r, guid, "instance")
}
