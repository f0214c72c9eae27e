package services

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// keyOf finds a service key by name.
func keyOf(ctx context.Context, s *core.Session, instance cfapi.ServiceInstance, name string) (cfapi.Binding, error) {
	q := url.Values{"type": {"key"}, "service_instance_guids": {instance.GUID}}
	return core.Named[cfapi.Binding](ctx, s, fmt.Sprintf("Service key of %s", instance.Name),
		"/v3/service_credential_bindings", name, q)
}

type keyRow struct {
	Name      string `json:"name"`
	GUID      string `json:"guid"`
	Operation string `json:"last_operation"`
	Message   string `json:"message"`
}

func listServiceKeys(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Getting keys for service instance %s", w["SERVICE"])
	instance, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	keys, err := client.List[cfapi.Binding](ctx, s.API, "/v3/service_credential_bindings",
		url.Values{"type": {"key"}, "service_instance_guids": {instance.GUID}, "per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	out := &core.Listing[keyRow]{
		Key: "service keys", Heading: []string{"name", "last operation", "message"},
		Cells: func(k keyRow) []string { return []string{k.Name, k.Operation, k.Message} },
	}
	for _, k := range keys {
		last := cmp.Or(k.Last, &cfapi.Operation{})
		out.Rows = append(out.Rows, keyRow{k.Name, k.GUID, last.Type + " " + last.State, last.Description})
	}
	return out, nil
}

type deleteServiceKeyFlags struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Wait  bool `long:"wait" description:"Wait for the operation to complete"`
}

func deleteServiceKey(ctx context.Context, s *core.Session, w core.Words,
	f *deleteServiceKeyFlags) (core.Result, error) {
	if err := s.Confirm(ctx, f.Force, "Really delete the service key "+w["KEY"]+
		"; its credentials stop working"); err != nil {
		return nil, err
	}
	s.Doing("Deleting key %s for service instance %s", w["KEY"], w["SERVICE"])
	instance, err := s.ServiceInstance(ctx, w["SERVICE"])
	if err != nil {
		return nil, err
	}
	key, err := keyOf(ctx, s, instance, w["KEY"])
	if core.IsNotFound(err) {
		return s.Absent("Service key", "key", w["KEY"])
	}
	if err != nil {
		return nil, err
	}
	return start(ctx, s, http.MethodDelete, "/v3/service_credential_bindings/"+key.GUID, nil,
		f.Wait, "key", key.Name, "Delete of service key "+key.Name)
}

func keysCommands() []*core.Command {
	return core.InGroup(core.GroupServices,
		core.Entry("service-keys", "SERVICE", "List the keys of a service instance", core.NeedsSpace, listServiceKeys,
			"my-db").Alias("sk"),
		core.Entry("delete-service-key", "SERVICE KEY [-f] [--wait]", "Delete a service key", core.NeedsSpace,
			deleteServiceKey,
			"my-db my-key -f").Alias("dsk").Slow(),
	)
}
