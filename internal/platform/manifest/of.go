package manifest

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

func asFault(err error, e **fault.Error) bool { return errors.As(err, e) }

// Of returns an app as a manifest.
func Of(tx platform.Tx, app *platform.App) ([]byte, error) {
	entry, err := describe(tx, app)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(yaml.MapSlice{{Key: "applications", Value: []any{entry}}})
}

// describe returns the app as an entry of applications, in a fixed order.
func describe(tx platform.Tx, app *platform.App) (yaml.MapSlice, error) {
	var out yaml.MapSlice
	set := func(key string, value any) { out = append(out, yaml.MapItem{Key: key, Value: value}) }
	set("name", app.Name)
	if len(app.Env) > 0 {
		set("env", app.Env)
	}
	set("lifecycle", app.Lifecycle.Type)
	if app.Lifecycle.Type == platform.LifecycleDocker {
		image, err := describeImage(tx, app)
		if err != nil {
			return nil, err
		}
		if len(image) > 0 {
			set("docker", image)
		}
	} else {
		if len(app.Lifecycle.Buildpacks) > 0 {
			set("buildpacks", app.Lifecycle.Buildpacks)
		}
		set("stack", app.Lifecycle.Stack)
	}
	if len(app.Features) > 0 {
		set("features", app.Features)
	}
	services, err := describeServices(tx, app)
	if err != nil {
		return nil, err
	}
	if len(services) > 0 {
		set("services", services)
	}
	routes, err := describeRoutes(tx, app)
	if err != nil {
		return nil, err
	}
	if len(routes) > 0 {
		set("routes", routes)
	}
	if meta := describeMetadata(&app.Metadata); len(meta) > 0 {
		set("metadata", meta)
	}
	processes, err := processesOf(tx, app)
	if err != nil {
		return nil, err
	}
	var list []yaml.MapSlice
	for _, process := range processes {
		list = append(list, describeProcess(process))
	}
	if len(list) > 0 {
		set("processes", list)
	}
	sidecars, _, err := tx.Sidecars().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return nil, err
	}
	var extra []yaml.MapSlice
	for _, s := range sidecars {
		if s.Origin != platform.SidecarOfUser {
			continue // it is part of the droplet
		}
		one := yaml.MapSlice{{Key: "name", Value: s.Name}}
		if len(s.ProcessTypes) > 0 {
			one = append(one, yaml.MapItem{Key: "process_types", Value: s.ProcessTypes})
		}
		one = append(one, yaml.MapItem{Key: "command", Value: s.Command})
		if s.MemoryMB > 0 {
			one = append(one, yaml.MapItem{Key: "memory", Value: showMB(s.MemoryMB)})
		}
		one = append(one, describeOptions(s.Options)...)
		extra = append(extra, one)
	}
	if len(extra) > 0 {
		set("sidecars", extra)
	}
	return out, nil
}

// processesOf returns the processes of an app, web first.
func processesOf(tx platform.Tx, app *platform.App) ([]*platform.Process, error) {
	processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return nil, err
	}
	// Of web processes the newest counts.
	newest := map[string]string{}
	for _, process := range processes {
		newest[process.Type] = process.GUID
	}
	processes = slices.DeleteFunc(processes, func(p *platform.Process) bool { return newest[p.Type] != p.GUID })
	slices.SortFunc(processes, func(a, b *platform.Process) int {
		if a.Type == platform.WebProcess || b.Type == platform.WebProcess {
			return map[bool]int{true: -1, false: 1}[a.Type == platform.WebProcess]
		}
		return strings.Compare(a.Type, b.Type)
	})
	return processes, nil
}

// describeImage returns the image of an app as it was pushed, without its digest, so that
// a push with the manifest gets the newest one.
func describeImage(tx platform.Tx, app *platform.App) (yaml.MapSlice, error) {
	d, err := tx.Droplets().Get(app.DropletGUID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	src := d.Source()
	if pkg, err := tx.Packages().Get(d.PackageGUID); err == nil {
		src.Reference = pkg.Image
	} else if !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	out := yaml.MapSlice{{Key: "image", Value: src.Reference}}
	if src.Username != "" {
		out = append(out, yaml.MapItem{Key: "username", Value: src.Username})
	}
	return out, nil
}

func describeMetadata(m *platform.Metadata) yaml.MapSlice {
	var out yaml.MapSlice
	if len(m.Labels) > 0 {
		out = append(out, yaml.MapItem{Key: "labels", Value: m.Labels})
	}
	if len(m.Annotations) > 0 {
		out = append(out, yaml.MapItem{Key: "annotations", Value: m.Annotations})
	}
	return out
}

func describeRoutes(tx platform.Tx, app *platform.App) ([]yaml.MapSlice, error) {
	mapped, _, err := tx.Destinations().List(platform.Where("app_guid", app.GUID).
		And(platform.In("process_type", platform.WebProcess)))
	if err != nil {
		return nil, err
	}
	var out []yaml.MapSlice
	var seen []string
	for _, d := range mapped {
		if slices.Contains(seen, d.RouteGUID) {
			continue
		}
		seen = append(seen, d.RouteGUID)
		r, err := tx.Routes().Get(d.RouteGUID)
		if err != nil {
			return nil, err
		}
		domain, err := tx.Domains().Get(r.DomainGUID)
		if err != nil {
			return nil, err
		}
		// As in Cloud Foundry, routes without options show an empty object.
		options := yaml.MapSlice{}
		for _, name := range slices.Sorted(maps.Keys(r.Options)) {
			options = append(options, yaml.MapItem{Key: name, Value: r.Options[name]})
		}
		out = append(out, yaml.MapSlice{{Key: "route", Value: platform.RouteURL(r, domain)},
			{Key: "protocol", Value: d.Protocol}, {Key: "options", Value: options}})
	}
	return out, nil
}

func describeProcess(p *platform.Process) yaml.MapSlice {
	out := yaml.MapSlice{{Key: "type", Value: p.Type}}
	for _, f := range processFields {
		if v := f.show(p); v != nil {
			out = append(out, yaml.MapItem{Key: cmp.Or(f.written, f.key), Value: v})
		}
	}
	return out
}
