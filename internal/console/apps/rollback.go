package apps

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// rollbackData is what rolling back to a revision would change.
type rollbackData struct {
	Revision revision
	Running  bool // it is what the app runs
	Droplet  string
	Changes  []difference
	Unknown  bool // the user may not read variables
	Diff     string
}

// difference is a setting that would change. Was and Value are empty where values are secret, or nothing is set.
type difference struct{ What, Was, Value string }

// revision is GET /console/apps/GUID/revisions/GUID: what rolling back to it would change.
func (c *pages) revision(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return ShowTab(c.Console, w, r, s, "revision", loadRollback)
}

func loadRollback(r *http.Request, call *page.Caller, d *Data) (any, error) {
	of := web.Param(r, "revision")
	data := &rollbackData{}
	if err := call.Get(&data.Revision, "/v3/revisions/"+url.PathEscape(of), nil); err != nil {
		if page.Gone(err) {
			return nil, noRevision()
		}
		return nil, err
	}
	if data.Revision.Relationships.App.GUID() != d.App.GUID {
		return nil, noRevision()
	}
	name, version := d.App.Name, strconv.Itoa(data.Revision.Version)
	data.Revision.Command = page.Command("cf", "rollback", name, "--version", version)
	data.Diff = page.Command("cf", "revision", name, "--version", version)
	var current cfapi.Droplet
	var processes []processNow
	var sidecars []sidecarNow
	var deployed []cfapi.Revision
	var then, now variableNames
	path := "/v3/apps/" + d.App.GUID
	err := page.Together(
		func() error {
			err := call.Get(&current, path+"/droplets/current", nil)
			if page.Gone(err) {
				return nil
			}
			return err
		},
		page.List(call, &processes, path+"/processes", url.Values{"order_by": {"created_at"}}),
		page.List(call, &sidecars, path+"/sidecars", nil),
		page.List(call, &deployed, path+"/revisions/deployed", nil),
		func() error {
			if !d.MayShell {
				return nil
			}
			return page.Together(
				func() error {
					return call.Get(&then, "/v3/revisions/"+url.PathEscape(of)+"/environment_variables", nil)
				},
				func() error { return call.Get(&now, path+"/environment_variables", nil) },
			)
		},
	)
	if err != nil {
		return nil, err
	}
	data.Unknown = !d.MayShell
	data.Running = slices.ContainsFunc(deployed, func(one cfapi.Revision) bool { return one.GUID == data.Revision.GUID })
	if current.GUID != data.Revision.Droplet.GUID {
		data.Changes = append(data.Changes, difference{"Droplet", current.GUID, data.Revision.Droplet.GUID})
	}
	data.Changes = append(data.Changes, now.to(then)...)
	data.Changes = append(data.Changes, processChanges(processes, &data.Revision.Revision)...)
	data.Changes = append(data.Changes, sidecarChanges(sidecars, &data.Revision.Revision)...)
	return data, nil
}

func noRevision() error { return fault.New(fault.NotFound, "The app has no such revision.") }

// variableNames are variables of which only names and equality are shown.
type variableNames struct {
	Var map[string]json.RawMessage `json:"var"`
}

// to returns how variables would change, by their names.
func (n variableNames) to(then variableNames) []difference {
	all := maps.Clone(n.Var)
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, then.Var)
	var out []difference
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, had := n.Var[name]
		value, has := then.Var[name]
		one := difference{What: "Variable " + name}
		switch {
		case had && !has:
			one.Was, one.Value = "set", "removed"
		case !had:
			one.Was, one.Value = "not set", "set"
		case string(was) == string(value):
			continue
		default:
			one.Was, one.Value = "set", "another value"
		}
		out = append(out, one)
	}
	return out
}

// processNow is a process of the app, with its settings as the platform shows them.
type processNow map[string]json.RawMessage

func (p processNow) kind() string {
	var kind string
	_ = json.Unmarshal(p["type"], &kind) // otherwise it has none
	return kind
}

// processChanges returns the settings of processes that would change. A process that the revision does not have
// keeps its own.
func processChanges(now []processNow, then *cfapi.Revision) []difference {
	newest := map[string]processNow{} // of processes of one type, the last one counts
	for _, p := range now {
		newest[p.kind()] = p
	}
	var out []difference
	for _, kind := range slices.Sorted(maps.Keys(newest)) {
		settings, ok := then.Ingot.Processes[kind]
		if !ok {
			continue
		}
		next := maps.Clone(settings)
		next["command"] = then.Processes[kind]["command"]
		out = append(out, newest[kind].to(next)...)
	}
	return out
}

// to returns the settings that would change, those that settingNames has first.
func (p processNow) to(next map[string]any) []difference {
	known := slices.Collect(maps.Keys(next))
	slices.SortFunc(known, func(a, b string) int {
		return cmp.Or(cmp.Compare(settingOrder(a), settingOrder(b)), cmp.Compare(a, b))
	})
	var out []difference
	for _, key := range known {
		raw, err := json.Marshal(next[key])
		if err != nil {
			continue
		}
		name, show := strings.ReplaceAll(key, "_", " "), compact
		if at := settingOrder(key); at < len(settingNames) {
			name, show = settingNames[at].name, settingNames[at].show
		}
		if was, value := show(p[key]), show(raw); was != value {
			out = append(out, difference{p.kind() + ": " + name, was, value})
		}
	}
	return out
}

// settingNames are the settings whose names or values the page shows otherwise than the API. Others
// need no entry.
var settingNames = []struct {
	key, name string
	show      func(json.RawMessage) string
}{
	{"command", "command", compact},
	{"memory_in_mb", "memory", inNumber(func(n int64) string { return strconv.FormatInt(n, 10) + " MB" })},
	{"disk_in_mb", "disk", inNumber(func(n int64) string { return strconv.FormatInt(n, 10) + " MB" })},
	{"log_rate_limit_in_bytes_per_second", "log rate", inNumber(rateText)},
}

// settingOrder returns the place of a key in settingNames, or the place after them.
func settingOrder(key string) int {
	for i, s := range settingNames {
		if s.key == key {
			return i
		}
	}
	return len(settingNames)
}

func inNumber(show func(int64) string) func(json.RawMessage) string {
	return func(raw json.RawMessage) string {
		var n int64
		if json.Unmarshal(raw, &n) != nil {
			return ""
		}
		return show(n)
	}
}

func rateText(n int64) string {
	if n < 0 {
		return "no limit"
	}
	return page.HumanBytes(n) + "/s"
}

// compact returns JSON in one line, with its members in order. Texts have no quotes, and null is empty.
func compact(raw json.RawMessage) string {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil || v == nil {
		return ""
	}
	if text, isText := v.(string); isText {
		return text
	}
	text, _ := json.Marshal(v) // it was JSON
	return string(text)
}

// sidecarNow is a sidecar of the app.
type sidecarNow struct {
	Name     string          `json:"name"`
	Command  string          `json:"command"`
	Types    []string        `json:"process_types"`
	MemoryMB int64           `json:"memory_in_mb"`
	Options  json.RawMessage `json:"options"`
}

// text describes a sidecar without its options, whose variables have secret values.
func (s sidecarNow) text() string {
	types := slices.Sorted(slices.Values(s.Types))
	text := s.Command + " (" + strings.Join(types, ", ")
	if s.MemoryMB > 0 {
		text += fmt.Sprintf(", %d MB", s.MemoryMB)
	}
	return text + ")"
}

// sidecarChanges returns the sidecars that would be added, removed or changed.
func sidecarChanges(now []sidecarNow, then *cfapi.Revision) []difference {
	current, next := map[string]sidecarNow{}, map[string]sidecarNow{}
	for _, s := range now {
		current[s.Name] = s
	}
	for _, one := range then.Sidecars {
		raw, err := json.Marshal(one)
		var s sidecarNow
		if err != nil || json.Unmarshal(raw, &s) != nil {
			continue
		}
		if options := then.Ingot.Sidecars[s.Name]; len(options) > 0 {
			s.Options, _ = json.Marshal(options) // it was JSON
		}
		next[s.Name] = s
	}
	names := maps.Clone(current)
	maps.Copy(names, next)
	var out []difference
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := current[name]
		value, has := next[name]
		one := difference{What: "Sidecar " + name}
		switch {
		case !has:
			one.Was, one.Value = was.text(), "removed"
		case !had:
			one.Was, one.Value = "does not exist", value.text()
		case was.text() != value.text():
			one.Was, one.Value = was.text(), value.text()
		case optionsOf(was.Options) != optionsOf(value.Options):
			one.Was, one.Value = "its options", "other options"
		default:
			continue
		}
		out = append(out, one)
	}
	return out
}

// optionsOf returns options in one form, whether there are none or empty ones.
func optionsOf(raw json.RawMessage) string {
	if text := compact(raw); text != "{}" {
		return text
	}
	return ""
}
