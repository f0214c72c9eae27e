package apps

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// sidecarForm is the form of a sidecar, with the texts of its fields.
type sidecarForm struct {
	GUID, Name, Command, Types, Memory string
	Options                            string // JSON; values of variables are hidden
	Buildpack                          bool   // a buildpack brought it: a build replaces it
	Typed                              bool   // it was refused, and is shown as it was typed
}

type sidecarsData struct {
	Sidecars []sidecarForm
	New      sidecarForm
	Apply    string // the command that does the same
	Changed  bool   // something was saved, and the app runs
	Restart  string
}

// sidecarSaid begins the results of changes.
const sidecarSaid = "sidecar-"

// sidecars is GET /console/apps/GUID/sidecars.
func (c *pages) sidecars(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return ShowTab(c.Console, w, r, s, "sidecars", loadSidecars)
}

func loadSidecars(r *http.Request, call *page.Caller, d *Data) (any, error) {
	if !d.MayShell {
		return nil, fault.New(fault.Forbidden, "Only space developers may change sidecars.")
	}
	var found []struct {
		cfapi.Sidecar
		Types   []string        `json:"process_types"`
		Options json.RawMessage `json:"options"`
		Origin  string          `json:"origin"`
	}
	if err := page.List(call, &found, "/v3/apps/"+d.App.GUID+"/sidecars", nil)(); err != nil {
		return nil, err
	}
	data := &sidecarsData{New: sidecarForm{Types: "web"}, Restart: d.Restart,
		Apply:   page.Command("cf", "apply-manifest", "-f", "manifest.yml"),
		Changed: d.App.Started() && strings.HasPrefix(r.URL.Query().Get("said"), sidecarSaid)}
	for _, one := range found {
		form := sidecarForm{GUID: one.GUID, Name: one.Name, Command: one.Command, Types: strings.Join(one.Types, ", "),
			Options: optionsText(one.Options), Buildpack: one.Origin == "buildpack"}
		if one.MemoryMB > 0 {
			form.Memory = strconv.FormatInt(one.MemoryMB, 10)
		}
		data.Sidecars = append(data.Sidecars, form)
	}
	if r.Method == http.MethodPost {
		data.keep(r.PostForm)
	}
	return data, nil
}

// optionsText returns options as a text to edit; empty for none.
func optionsText(raw json.RawMessage) string {
	if text := string(bytes.TrimSpace(raw)); text == "" || text == "null" || text == "{}" {
		return ""
	}
	return page.Indented(raw)
}

// keep shows what was typed into a form that was refused.
func (d *sidecarsData) keep(form url.Values) {
	typed := sidecarForm{GUID: form.Get("sidecar"), Name: form.Get("name"), Command: form.Get("command"),
		Types: form.Get("types"), Memory: form.Get("memory_in_mb"), Options: form.Get("options"), Typed: true}
	for i := range d.Sidecars {
		if d.Sidecars[i].GUID == typed.GUID {
			d.Sidecars[i] = typed
		}
	}
	if typed.GUID == "" {
		d.New = typed
	}
}

// sidecarOf reads the form of a sidecar.
func sidecarOf(form url.Values) (any, error) {
	body := map[string]any{"name": strings.TrimSpace(form.Get("name")), "command": strings.TrimSpace(form.Get("command")),
		"process_types": page.Words(form.Get("types")), "memory_in_mb": nil, "options": map[string]any{}}
	if text := strings.TrimSpace(form.Get("memory_in_mb")); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fault.New(fault.Unprocessable, "The memory must be a number of MB, not %.50q.", text)
		}
		body["memory_in_mb"] = n
	}
	if text := strings.TrimSpace(form.Get("options")); text != "" {
		if options, ok := jsonObject(text); ok {
			body["options"] = options
			return body, nil
		}
		line, column := jsonProblem(text)
		return nil, fault.New(fault.Unprocessable, "The options must be a JSON object. See line %d, column %d.", line, column)
	}
	return body, nil
}

// jsonObject decodes a text that is one JSON object.
func jsonObject(text string) (map[string]json.RawMessage, bool) {
	var object map[string]json.RawMessage
	err := json.Unmarshal([]byte(text), &object)
	return object, err == nil && object != nil
}

// jsonProblem returns the position at which a text stops being a JSON object.
func jsonProblem(text string) (line, column int) {
	at := 1 // something else than an object begins here
	var wrong *json.SyntaxError
	if err := json.Unmarshal([]byte(text), new(any)); errors.As(err, &wrong) {
		at = min(max(1, int(wrong.Offset)), len(text))
	}
	before := text[:at-1]
	return strings.Count(before, "\n") + 1, len(before) - strings.LastIndex(before, "\n")
}

// saveSidecar is POST /console/apps/GUID/sidecars/save: the field sidecar has the guid of the one to change, and is
// empty for a new one.
func (c *pages) saveSidecar(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid, of := web.Param(r, "guid"), r.PostForm.Get("sidecar")
	method, path := http.MethodPost, "/v3/apps/"+url.PathEscape(guid)+"/sidecars"
	if of != "" {
		method, path = http.MethodPatch, "/v3/sidecars/"+url.PathEscape(of)
	}
	body, err := sidecarOf(r.PostForm)
	if err == nil {
		err = c.Platform(r, s).Do(method, path, body, nil)
	}
	if err == nil {
		return backTo(w, r, guid, "sidecars", sidecarSaid+"saved")
	}
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	return showTab(c.Console, w, r, s, "sidecars", loadSidecars, status, cmp.Or(text, "The sidecar was not saved."))
}
