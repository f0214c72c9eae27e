package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"ingot/internal/cli/client"
)

// keyOf finds a service key by name.
func (s *session) keyOf(ctx context.Context, instance client.ServiceInstance, name string) (client.Binding, error) {
	q := url.Values{"type": {"key"}, "service_instance_guids": {instance.GUID}}
	return named(ctx, s, fmt.Sprintf("Service key of %s", instance.Name), "/v3/service_credential_bindings", name, q,
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

func (c *serviceKeysCommand) run(ctx context.Context, s *session) (result, error) {
	s.doing("Getting keys for service instance %s", c.Args.Service)
	instance, err := s.instance(ctx, c.Args.Service)
	if err != nil {
		return nil, noServices(s, err)
	}
	keys, err := client.List[client.Binding](ctx, s.api, "/v3/service_credential_bindings",
		url.Values{"type": {"key"}, "service_instance_guids": {instance.GUID}, "per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	out := &listing[keyRow]{
		key: "service keys", heading: []string{"name", "last operation", "message"},
		cells: func(k keyRow) []string { return []string{k.Name, k.Operation, k.Message} },
	}
	for _, k := range keys {
		out.rows = append(out.rows, keyRow{k.Name, k.GUID, k.LastOperation.Type + " " + k.LastOperation.State, k.LastOperation.Description})
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

func (c *deleteServiceKeyCommand) run(ctx context.Context, s *session) (result, error) {
	if !c.Force {
		if err := s.confirm(ctx, "Really delete the service key "+c.Args.Key+"; its credentials stop working"); err != nil {
			return nil, err
		}
	}
	s.doing("Deleting key %s for service instance %s", c.Args.Key, c.Args.Service)
	instance, err := s.instance(ctx, c.Args.Service)
	if err != nil {
		return nil, noServices(s, err)
	}
	key, err := s.keyOf(ctx, instance, c.Args.Key)
	if isNotFound(err) {
		s.say("Service key %s does not exist.", c.Args.Key)
		s.ok()
		return &removed{Kind: "key", Name: c.Args.Key}, nil
	}
	if err != nil {
		return nil, err
	}
	reply, err := s.api.Do(ctx, client.Call{Method: http.MethodDelete, URL: "/v3/service_credential_bindings/" + key.GUID})
	if err != nil {
		return nil, err
	}
	return s.operate(ctx, reply, c.Wait, "key", key.Name, "Delete of service key "+key.Name)
}
