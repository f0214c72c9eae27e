package apps

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

type environmentData struct {
	Variables []page.Variable
	Services  string      // VCAP_SERVICES, indented
	New       [3]struct{} // empty rows
	Set       string
	AsText    bool   // they are shown as Text, which is not masked
	Text      string // all variables, a line each; or what was typed and refused
}

// LoadChanged sets when the environment was changed, if the app has not been started with it since.
func (d *Data) LoadChanged(c *page.Caller) (err error) {
	d.Changed, err = environmentChanged(c, d)
	return err
}

// environmentChanged returns when the environment was changed, if the app has not been
// started with it since; otherwise zero.
func environmentChanged(c *page.Caller, d *Data) (time.Time, error) {
	if !d.App.Started() {
		return time.Time{}, nil
	}
	var events, bindings []cfapi.Event
	err := page.Together(
		page.List(c, &events, "/v3/audit_events", url.Values{
			"target_guids": {d.App.GUID}, "order_by": {"-created_at"}, "per_page": {"50"},
			"types": {"audit.app.update,audit.app.start,audit.app.restart,audit.app.deployment.create"},
		}),
		page.List(c, &bindings, "/v3/service_credential_bindings", url.Values{"app_guids": {d.App.GUID},
			"order_by": {"-created_at"}, "per_page": {"1"}}),
	)
	return changedAfterStart(events, bindings), err
}

// changedAfterStart returns when the environment was last changed: by the newest of events,
// which are newest first, or by the newest binding; zero if the app was started afterwards.
func changedAfterStart(events, bindings []cfapi.Event) time.Time {
	var changed time.Time
	for _, e := range events {
		var data struct {
			Request struct {
				Variables json.RawMessage `json:"environment_variables"`
			} `json:"request"`
		}
		if e.Type != "audit.app.update" {
			// Times of the API are whole seconds: a binding of the same second is taken for older.
			if changed.IsZero() && len(bindings) > 0 && bindings[0].CreatedAt.After(e.CreatedAt) {
				changed = bindings[0].CreatedAt
			}
			return changed
		}
		if changed.IsZero() && json.Unmarshal(e.Data, &data) == nil && len(data.Request.Variables) > 0 {
			changed = e.CreatedAt
		}
	}
	return changed // the start was before all events
}

// environment is GET /console/apps/GUID/environment; ?text= also shows the variables as text.
func (c *pages) environment(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return ShowTab(c.Console, w, r, s, "environment", loadEnvironment)
}

func loadEnvironment(r *http.Request, call *page.Caller, d *Data) (any, error) {
	var env struct {
		Variables json.RawMessage            `json:"environment_variables"`
		System    map[string]json.RawMessage `json:"system_env_json"`
	}
	if err := call.Get(&env, "/v3/apps/"+d.App.GUID+"/env", nil); err != nil {
		return nil, err
	}
	data := &environmentData{Set: page.Command("cf", "set-env", d.App.Name, "NAME", "VALUE")}
	var err error
	if data.Variables, err = page.InOrder(env.Variables); err != nil {
		return nil, err
	}
	if err := d.LoadChanged(call); err != nil {
		return nil, err
	}
	data.Services = page.Indented(env.System["VCAP_SERVICES"])
	if typed, ok := r.PostForm["text"]; ok && len(typed) > 0 {
		data.Text, data.AsText = typed[0], true
	} else if r.URL.Query().Has("text") {
		data.Text, data.AsText = textOf(data.Variables), true
	}
	return data, nil
}

// variablesOf reads the form of an environment: pairs of the fields name and value, in order. A
// name without a pair's value is set to the empty text; those in remove are removed.
func variablesOf(form url.Values) (any, error) {
	changed := map[string]any{}
	values := form["value"]
	for i, name := range form["name"] {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		changed[name] = ""
		if i < len(values) {
			// Browsers send line breaks of text areas as CR LF.
			changed[name] = strings.ReplaceAll(values[i], "\r\n", "\n")
		}
	}
	for _, name := range form["remove"] {
		changed[name] = nil
	}
	return map[string]any{"var": changed}, nil
}
