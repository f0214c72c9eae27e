package services

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
)

// keyOf finds a service key by name.
func keyOf(ctx context.Context, s *core.Session, instance client.ServiceInstance, name string) (client.Binding, error) {
	q := url.Values{"type": {"key"}, "service_instance_guids": {instance.GUID}}
	return core.Named(ctx, s, fmt.Sprintf("Service key of %s", instance.Name), "/v3/service_credential_bindings", name, q,
		func(b client.Binding) string { return b.Name })
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
		return nil, core.NoServices(s, err)
	}
	keys, err := client.List[client.Binding](ctx, s.API, "/v3/service_credential_bindings",
		url.Values{"type": {"key"}, "service_instance_guids": {instance.GUID}, "per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	out := &core.Listing[keyRow]{
		Key: "service keys", Heading: []string{"name", "last operation", "message"},
		Cells: func(k keyRow) []string { return []string{k.Name, k.Operation, k.Message} },
	}
	for _, k := range keys {
		out.Rows = append(out.Rows, keyRow{k.Name, k.GUID, k.LastOperation.Type + " " + k.LastOperation.State,
			k.LastOperation.Description})
	}
	return out, nil
}

type deleteServiceKeyFlags struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Wait  bool `long:"wait" description:"Wait for the operation to complete"`
	Args  struct {
		Service string `positional-arg-name:"SERVICE" required:"yes"`
		Key     string `positional-arg-name:"KEY" required:"yes"`
	} `positional-args:"yes"`
}

func deleteServiceKey(ctx context.Context, s *core.Session, _ core.Words,
	f *deleteServiceKeyFlags) (core.Result, error) {
	if !f.Force {
		if err := s.Confirm(ctx, "Really delete the service key "+f.Args.Key+"; its credentials stop working"); err != nil {
			return nil, err
		}
	}
	s.Doing("Deleting key %s for service instance %s", f.Args.Key, f.Args.Service)
	instance, err := s.ServiceInstance(ctx, f.Args.Service)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	key, err := keyOf(ctx, s, instance, f.Args.Key)
	if core.IsNotFound(err) {
		s.Say("Service key %s does not exist.", f.Args.Key)
		s.OK()
		return &core.Removed{Kind: "key", Name: f.Args.Key}, nil
	}
	if err != nil {
		return nil, err
	}
	reply, err := s.API.Do(ctx, client.Call{Method: http.MethodDelete, URL: "/v3/service_credential_bindings/" + key.GUID})
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, reply, f.Wait, "key", key.Name, "Delete of service key "+key.Name)
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
