package manifest

import (
	"fmt"
	"maps"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// Change is a difference between the current state and a manifest.
type Change struct {
	Op    string `json:"op"` // add, replace, remove
	Path  string `json:"path"`
	Was   any    `json:"was,omitempty"`
	Value any    `json:"value,omitempty"`
}

// compared are the keys of an app that Diff compares, besides those of its web process. Like Cloud
// Foundry it omits memory and disk of the app itself: clients that always send them would
// always see a difference.
var compared = []string{"env", "lifecycle", "buildpacks", "stack", "features", "metadata", "processes", "routes",
	"services", "sidecars"}

var notCompared = []string{"memory", "disk-quota"}

// Diff compares a manifest with the apps of a space. It compares only keys in the
// manifest, and paths have the keys as written there.
func Diff(tx platform.Tx, space *platform.Space, m *Manifest) ([]Change, error) {
	out := []Change{}
	for i, app := range m.Apps {
		path := fmt.Sprintf("/applications/%d", i)
		current := map[string]any{}
		have, err := tx.Apps().First(platform.Where("space_guid", space.GUID).And(platform.In("name", app.Name)))
		switch {
		case fault.Is(err, fault.NotFound):
			for _, key := range slices.Sorted(maps.Keys(app.raw)) {
				out = append(out, Change{Op: "add", Path: path + "/" + escape(key), Value: plain(app.raw[key])})
			}
			continue
		case err != nil:
			return nil, err
		}
		entry, err := describe(tx, have)
		if err != nil {
			return nil, err
		}
		for k, v := range fromYAML(entry) {
			current[dashed(k)] = normalValue(dashed(k), v)
		}
		ownKeys := addWebProcess(current, app.raw)
		for _, key := range slices.Sorted(maps.Keys(app.raw)) {
			name := dashed(key)
			if name == "routes" && app.NoRoute {
				continue // no route is mapped
			}
			ofProcess := ownKeys && processFieldOf(name) != nil && !slices.Contains(notCompared, name)
			if !ofProcess && !slices.Contains(compared, name) || !says(name, app.raw[key]) {
				continue
			}
			out = append(out, compare(path+"/"+escape(key), name, current[name], normalValue(name, app.raw[key]))...)
		}
	}
	return out, nil
}

// says reports whether a value changes something. Null resets some settings; for others it means
// nothing.
func says(key string, v any) bool {
	if v != nil || key == "buildpacks" {
		return true
	}
	field := processFieldOf(key)
	return field != nil && field.clearable
}

// addWebProcess adds the keys of the web process to the app, unless the manifest
// lists that process: then the app's own keys have no effect.
func addWebProcess(current, raw map[string]any) bool {
	isWeb := func(v any) bool {
		m, _ := v.(map[string]any)
		return m["type"] == platform.WebProcess
	}
	listed, _ := plain(raw["processes"]).([]any)
	if slices.ContainsFunc(listed, isWeb) {
		return false
	}
	have, _ := current["processes"].([]any)
	if at := slices.IndexFunc(have, isWeb); at >= 0 {
		for k, v := range have[at].(map[string]any) {
			if k := dashed(k); processFieldOf(k) != nil {
				current[k] = v
			}
		}
	}
	return true
}

// fromYAML converts an ordered entry to maps.
func fromYAML(v any) map[string]any {
	text, err := yaml.Marshal(v)
	if err != nil {
		return nil
	}
	var out map[any]any
	if yaml.Unmarshal(text, &out) != nil {
		return nil
	}
	m, _ := plain(out).(map[string]any)
	return m
}

// normalValue returns a value in canonical form, so that 1G and 1024M are equal.
func normalValue(key string, v any) any {
	v = plain(v)
	if field := processFieldOf(key); field != nil {
		return field.canonical(v)
	}
	switch key {
	case "buildpacks":
		if list, _ := v.([]any); len(list) == 0 {
			return nil
		}
	case "env", "labels", "annotations":
		return eachMember(v, func(_ string, e any) any {
			if e == nil && key != "env" {
				return nil
			}
			return text(e)
		})
	case "metadata":
		return eachMember(v, normalValue)
	case "processes":
		return eachEntry(v, func(k string, e any) any { return normalValue(dashed(k), e) })
	case "sidecars":
		return eachEntry(v, normalSidecar)
	case "routes":
		return eachEntry(v, normalRoute)
	case "services":
		return normalServices(v)
	}
	return v
}

func normalSidecar(key string, v any) any {
	switch key {
	case "memory":
		return normalValue("memory", v)
	case "env":
		return normalValue("env", v)
	case "run-in", "depends_on", "stop-after", "ports":
		if _, isList := v.([]any); !isList {
			v = []any{v}
		}
		return v
	case "optional":
		return v
	case "on-credentials":
		return onCredentials(text(v))
	case "stop-signal":
		return "SIG" + strings.TrimPrefix(strings.ToUpper(text(v)), "SIG")
	case "process_types":
		list, _ := v.([]any)
		sorted := make([]any, 0, len(list))
		for _, t := range list {
			sorted = append(sorted, text(t))
		}
		slices.SortFunc(sorted, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		return sorted
	}
	return text(v)
}

func normalRoute(key string, v any) any {
	switch key {
	case "route":
		at, err := splitAddress(text(v))
		if err != nil {
			return v
		}
		if at.port != 0 {
			at.host = net.JoinHostPort(at.host, strconv.Itoa(at.port))
		}
		return strings.ToLower(at.host) + at.path
	case "options":
		return eachMember(v, func(_ string, e any) any { return e })
	}
	return v
}

// eachMember changes the values of a map. Null values are kept only if null removes
// something.
func eachMember(v any, f func(key string, v any) any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(m))
	for k, e := range m {
		out[k] = f(k, e)
	}
	return out
}

// eachEntry changes the values of every map in a list, and drops those without
// effect.
func eachEntry(v any, f func(key string, v any) any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, len(list))
	for i, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			out[i] = e
			continue
		}
		kept := map[string]any{}
		for k, v := range m {
			if says(dashed(k), v) {
				kept[k] = f(k, v)
			}
		}
		out[i] = kept
	}
	return out
}

// identity returns the key that identifies entries of a list.
var identity = map[string]string{"processes": "type", "sidecars": "name", "routes": "route", "services": "name"}

func compare(path, key string, was, value any) []Change {
	id, listed := identity[key]
	wants, isList := value.([]any)
	if listed && isList {
		return compareLists(path, id, was, wants)
	}
	if m, ok := value.(map[string]any); ok {
		old, _ := was.(map[string]any)
		var out []Change
		for _, k := range slices.Sorted(maps.Keys(m)) {
			// The names in these maps are chosen by the user and have no meaning.
			out = append(out, compare(path+"/"+escape(k), "", old[k], m[k])...)
		}
		return out
	}
	switch {
	case reflect.DeepEqual(was, value):
		return nil
	case was == nil:
		return []Change{{Op: "add", Path: path, Value: value}}
	case value == nil:
		return []Change{{Op: "remove", Path: path, Was: was}}
	}
	return []Change{{Op: "replace", Path: path, Was: was, Value: value}}
}

func compareLists(path, id string, was any, wants []any) []Change {
	old, _ := was.([]any)
	var out []Change
	for i, w := range wants {
		at := fmt.Sprintf("%s/%d", path, i)
		want, ok := w.(map[string]any)
		if !ok {
			continue
		}
		var have map[string]any
		for _, o := range old {
			if m, ok := o.(map[string]any); ok && text(m[id]) == text(want[id]) {
				have = map[string]any{}
				for k, v := range m {
					have[dashed(k)] = v
				}
			}
		}
		if have == nil {
			out = append(out, Change{Op: "add", Path: at, Value: want})
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			name := dashed(k)
			if id == "type" && processFieldOf(name) == nil || k == id || k == "parameters" {
				continue
			}
			out = append(out, compare(at+"/"+escape(k), name, have[name], want[k])...)
		}
	}
	return out
}

// escape escapes a key for a JSON pointer.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
