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
