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

type serviceKeysCommand struct {
	Args struct {
		Service string `positional-arg-name:"SERVICE" required:"yes"`
	} `positional-args:"yes"`
}

type keyRow struct {
	Name      string `json:"name"`
	GUID      string `json:"guid"`
	Operation string `json:"last_operation"`
	Message   string `json:"message"`
}

func (c *serviceKeysCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Doing("Getting keys for service instance %s", c.Args.Service)
	instance, err := s.ServiceInstance(ctx, c.Args.Service)
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
		out.Rows = append(out.Rows, keyRow{k.Name, k.GUID, k.LastOperation.Type + " " + k.LastOperation.State, k.LastOperation.Description})
	}
	return out, nil
}

type deleteServiceKeyCommand struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Wait  bool `long:"wait" description:"Wait for the operation to complete"`
	Args  struct {
		Service string `positional-arg-name:"SERVICE" required:"yes"`
		Key     string `positional-arg-name:"KEY" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteServiceKeyCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	if !c.Force {
		if err := s.Confirm(ctx, "Really delete the service key "+c.Args.Key+"; its credentials stop working"); err != nil {
			return nil, err
		}
	}
	s.Doing("Deleting key %s for service instance %s", c.Args.Key, c.Args.Service)
	instance, err := s.ServiceInstance(ctx, c.Args.Service)
	if err != nil {
		return nil, core.NoServices(s, err)
	}
	key, err := keyOf(ctx, s, instance, c.Args.Key)
	if core.IsNotFound(err) {
		s.Say("Service key %s does not exist.", c.Args.Key)
		s.OK()
		return &core.Removed{Kind: "key", Name: c.Args.Key}, nil
	}
	if err != nil {
		return nil, err
	}
	reply, err := s.API.Do(ctx, client.Call{Method: http.MethodDelete, URL: "/v3/service_credential_bindings/" + key.GUID})
	if err != nil {
		return nil, err
	}
	return operate(ctx, s, reply, c.Wait, "key", key.Name, "Delete of service key "+key.Name)
}
