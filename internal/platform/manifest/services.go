package manifest

import (
	"slices"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// services binds the listed service instances that are not bound yet. They are in the
// app's space or shared with it.
func (a *Applier) services(tx platform.Tx, app *platform.App, m *App) error {
	for _, want := range m.Services {
		i, err := tx.ServiceInstances().First(platform.Where("visible_in_space_guid", a.Space.GUID).
			And(platform.In("name", want.Name)))
		if fault.Is(err, fault.NotFound) || err == nil && a.Bind == nil {
			return fault.Wrap(err, fault.NotFound, "Service instance '%s' not found", want.Name)
		}
		if err != nil {
			return err
		}
		bound, _, err := tx.ServiceBindings().List(platform.Where("app_guid", app.GUID).
			And(platform.In("instance_guid", i.GUID)))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(bound, func(b *platform.ServiceBinding) bool { return b.Last.Exists() }) {
			continue
		}
		job, err := a.Bind(tx, app, i, want)
		if err != nil {
			return prefixed("Service instance '"+want.Name+"': ", err)
		}
		if job != nil {
			a.Pending = append(a.Pending, job)
		}
	}
	return nil
}

// describeServices lists the bound service instances by name, with the name of the
// binding if it has one. Parameters are not stored.
func describeServices(tx platform.Tx, app *platform.App) ([]any, error) {
	bound, _, err := tx.ServiceBindings().List(platform.Where("app_guid", app.GUID).
		And(platform.In("type", platform.BindingApp)))
	if err != nil {
		return nil, err
	}
	named := map[string]string{}
	var names []string
	for _, b := range bound {
		if !b.Last.Exists() {
			continue
		}
		i, err := tx.ServiceInstances().Get(b.InstanceGUID)
		if err != nil {
			return nil, err
		}
		if _, seen := named[i.Name]; !seen {
			names = append(names, i.Name)
		}
		named[i.Name] = b.Name
	}
	slices.Sort(names)
	var out []any
	for _, name := range names {
		if named[name] == "" {
			out = append(out, name)
			continue
		}
		out = append(out, yaml.MapSlice{{Key: "name", Value: name}, {Key: "binding_name", Value: named[name]}})
	}
	return out, nil
}

// normalServices returns the services as entries with a name, without parameters:
// those of existing bindings are not known.
func normalServices(v any) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	out := make([]any, 0, len(list))
	for _, e := range list {
		m, isMap := e.(map[string]any)
		if !isMap {
			out = append(out, map[string]any{"name": text(e)})
			continue
		}
		kept := map[string]any{"name": text(m["name"])}
		if m["binding_name"] != nil {
			kept["binding_name"] = text(m["binding_name"])
		}
		out = append(out, kept)
	}
	return out
}
