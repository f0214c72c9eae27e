package manifest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/cf"
	"ingot/internal/fault"
)

// Change is one difference between what is and what a manifest says.
type Change struct {
	Op    string `json:"op"` // add, replace, remove
	Path  string `json:"path"`
	Was   any    `json:"was,omitempty"`
	Value any    `json:"value,omitempty"`
}

// silent are keys that only clients understand, or that are a request and not
// a state.
var silent = []string{"name", "path", "no-route", "random-route", "default-route", "memory", "disk-quota", "buildpack", "services"}

// Diff compares a manifest with the apps of a space. Only keys that the
// manifest names are looked at.
func Diff(tx cf.Tx, space *cf.Space, m *Manifest) ([]Change, error) {
	out := []Change{}
	for i, app := range m.Apps {
		path := fmt.Sprintf("/applications/%d", i)
		have, err := tx.Apps().First(cf.Where("space_guid", space.GUID).And(cf.In("name", app.Name)))
		if fault.Is(err, fault.NotFound) {
			for _, key := range slices.Sorted(maps.Keys(app.raw)) {
				out = append(out, Change{Op: "add", Path: path + "/" + escape(key), Value: plain(app.raw[key])})
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		entry, err := describe(tx, have)
		if err != nil {
			return nil, err
		}
		current := normalKeys(fromYAML(entry))
		for _, key := range slices.Sorted(maps.Keys(app.raw)) {
			if slices.Contains(silent, key) {
				continue
			}
			out = append(out, compare(path+"/"+escape(key), key, current[key], normalValue(key, app.raw[key]))...)
		}
	}
	return out, nil
}

// fromYAML makes plain maps of an ordered entry.
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

func normalKeys(in map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range in {
		key := strings.ReplaceAll(k, "_", "-")
		out[key] = normalValue(key, v)
	}
	return out
}

// normalValue gives values one spelling, so that 1G and 1024M are the same.
func normalValue(key string, v any) any {
	v = plain(v)
	switch key {
	case "memory", "disk-quota":
		if mb, err := megabytes(v); err == nil {
			return showMB(mb)
		}
	case "log-rate-limit-per-second":
		if rate, err := logRate(v); err == nil {
			return showRate(rate)
		}
	case "env":
		if m, ok := v.(map[string]any); ok {
			for k, e := range m {
				m[k] = text(e)
			}
		}
	case "processes":
		return eachMap(v, normalKeys)
	case "sidecars":
		return eachMap(v, func(m map[string]any) map[string]any {
			if mem, ok := m["memory"]; ok {
				m["memory"] = normalValue("memory", mem)
			}
			return m
		})
	}
	return v
}

func eachMap(v any, f func(map[string]any) map[string]any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = e
		if m, ok := e.(map[string]any); ok {
			out[i] = f(m)
		}
	}
	return out
}

// identity is the key by which entries of a list are the same.
var identity = map[string]string{"processes": "type", "sidecars": "name", "routes": "route"}

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
			out = append(out, compare(path+"/"+escape(k), k, old[k], m[k])...)
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
		have := map[string]any(nil)
		for _, o := range old {
			if m, ok := o.(map[string]any); ok && reflect.DeepEqual(m[id], want[id]) {
				have = m
			}
		}
		if have == nil {
			out = append(out, Change{Op: "add", Path: at, Value: want})
			continue
		}
		for _, k := range slices.Sorted(maps.Keys(want)) {
			out = append(out, compare(at+"/"+escape(k), k, have[k], want[k])...)
		}
	}
	return out
}

// escape writes a key as a part of a JSON pointer.
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
