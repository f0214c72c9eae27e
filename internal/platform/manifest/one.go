package manifest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
)

var variable = pattern.OnUse(`\(\(([-/\w.]+)\)\)`)

// Flags are settings of an app that count more than those in its manifest, like flags of a client.
type Flags struct {
	Memory      string // with its unit; "" means as in the manifest
	Instances   *int
	RandomRoute bool // if the manifest has no routes
	Image       string
	Username    string // at the registry of the image
}

// ParseOne parses the entry of one app in a manifest that comes with the app's files, as a
// client does it before it sends the manifest: an only entry applies to the app whatever its
// name is, and the app gets a route unless the entry says otherwise. An empty text is a
// manifest without settings. It also returns the folder of the app's files, "" for all.
func ParseOne(text []byte, app string, flags Flags, allowed ...Rule) (m *Manifest, folder string, err error) {
	list := []any{map[any]any{}}
	if len(text) > 0 {
		if found := variable().FindSubmatch(text); found != nil {
			return nil, "", fault.Invalid(fmt.Sprintf("The manifest has no value for the variable %s: write the value into it, "+
				"because none can be passed here", found[1]))
		}
		if list, err = applications(text); err != nil {
			return nil, "", err
		}
	}
	entry, err := entryOf(list, app)
	if err != nil {
		return nil, "", err
	}
	entry["name"] = app
	if given, ok := entry["path"]; ok {
		delete(entry, "path")
		given, ok := given.(string)
		if folder = path.Clean(given); !ok || path.IsAbs(folder) || folder == ".." || strings.HasPrefix(folder, "../") {
			return nil, "", fault.Invalid("The path in the manifest must be a folder beside the manifest")
		}
		if folder == "." {
			folder = ""
		}
	}
	routed := slices.ContainsFunc(slices.Collect(maps.Keys(entry)), func(key any) bool {
		name, _ := key.(string)
		return slices.Contains([]string{"no-route", "random-route", "routes", "default-route"}, dashed(name))
	})
	if !routed {
		entry["default-route"] = !flags.RandomRoute
		entry["random-route"] = flags.RandomRoute
	}
	flags.apply(entry)
	m, err = parseApps([]any{entry}, allowed)
	return m, folder, err
}

// apply sets what the flags have. The keys of the web process may be at the app or in its list of processes.
func (f Flags) apply(entry map[any]any) {
	if f.Image != "" {
		image := map[any]any{"image": f.Image}
		if f.Username != "" {
			image["username"] = f.Username
		}
		entry["docker"] = image
	}
	web := entry
	if list, ok := entry["processes"].([]any); ok {
		list = slices.Clone(list)
		for i, one := range list {
			if process, ok := one.(map[any]any); ok && process["type"] == "web" {
				web = maps.Clone(process)
				list[i] = web
			}
		}
		entry["processes"] = list
	}
	if f.Memory != "" {
		web["memory"] = f.Memory
	}
	if f.Instances != nil {
		web["instances"] = *f.Instances
	}
}

// entryOf returns a copy of the entry of an app.
func entryOf(list []any, app string) (map[any]any, error) {
	var names []string
	for _, one := range list {
		entry, _ := one.(map[any]any)
		if name, _ := entry["name"].(string); name == app || len(list) == 1 {
			if entry == nil {
				entry = map[any]any{}
			}
			return maps.Clone(entry), nil
		}
		names = append(names, fmt.Sprint(entry["name"]))
	}
	return nil, fault.Invalid(fmt.Sprintf("The manifest has no app %s, but %s", app, strings.Join(names, ", ")))
}
