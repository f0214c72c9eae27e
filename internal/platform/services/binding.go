package services

import (
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Bind is a request for a binding.
type Bind struct {
	Type       string
	Instance   *platform.ServiceInstance
	App        *platform.App
	Route      *platform.Route
	Name       string
	Parameters map[string]any
	// Several allows more than one binding of an app to an instance.
	Several  bool
	Metadata platform.Metadata
}

// operationOf returns the operation and resource type of a job for a binding.
func operationOf(b *platform.ServiceBinding, what string) (operation, resource string) {
	switch b.Type {
	case platform.BindingKey:
		return "service_keys." + what, "service_credential_binding"
	case platform.BindingRoute:
		return "service_route_bindings." + what, "service_route_binding"
	}
	return "service_bindings." + what, "service_credential_binding"
}

// Bind stores a binding. It returns the job that creates it at the broker, nil if
// the service is user-provided and the binding is ready.
func (s *Services) Bind(tx platform.Tx, by actions.Actor, r Bind) (*platform.ServiceBinding, *platform.Job, error) {
	b := &platform.ServiceBinding{Type: r.Type, Name: r.Name, InstanceGUID: r.Instance.GUID,
		SpaceGUID: r.Instance.SpaceGUID, Metadata: r.Metadata}
	if r.App != nil {
		b.AppGUID, b.SpaceGUID = r.App.GUID, r.App.SpaceGUID
	}
	if r.Route != nil {
		b.RouteGUID, b.SpaceGUID = r.Route.GUID, r.Route.SpaceGUID
	}
	if err := s.checkBind(tx, r, b); err != nil {
		return nil, nil, err
	}
	if b.AppGUID != "" {
		tx.Announce(platform.Changes{Apps: []string{b.AppGUID}}) // it may have a new log drain
	}
	now := time.Now()
	b.Last = platform.LastOperation{Type: platform.OperationCreate, State: platform.OperationInProgress, Created: now,
		Updated: now}
	if r.Instance.Type == platform.ServiceUserProvided {
		if len(r.Parameters) > 0 {
			return nil, nil, fault.New(fault.Unprocessable,
				"Binding parameters are not supported for user-provided service instances")
		}
		b.Last.State = platform.OperationSucceeded
		if err := s.Platform.InsertBinding(tx, b); err != nil {
			return nil, nil, err
		}
		return b, nil, s.Platform.RecordBinding(tx, "create", by, b, r.Instance)
	}
	parts, err := partsOf(tx, r.Instance.PlanGUID)
	if err != nil {
		return nil, nil, err
	}
	if err := platform.CheckBindable(r.Type, parts.plan, parts.offering); err != nil {
		return nil, nil, err
	}
	if err := checkParameters(parts.plan.Schemas, r.Parameters, "service_binding", "create"); err != nil {
		return nil, nil, err
	}
	if err := s.Platform.InsertBinding(tx, b); err != nil {
		return nil, nil, err
	}
	if b.Type == platform.BindingKey {
		if err := actions.KeyFits(tx, b.SpaceGUID); err != nil {
			return nil, nil, err
		}
	}
	w := parts.work(create, by, r.Instance.GUID)
	w.Binding, w.Parameters = b.GUID, r.Parameters
	operation, resource := operationOf(b, "create")
	job, err := s.insertJob(tx, operation, resource, b.GUID, w)
	return b, job, err
}

// checkBind refuses bindings that already exist, and those that the instance does
// not allow. A binding whose creation failed is replaced.
func (s *Services) checkBind(tx platform.Tx, r Bind, b *platform.ServiceBinding) error {
	if err := platform.CheckBinding(b, r.Instance); err != nil {
		return err
	}
	switch r.Type {
	case platform.BindingApp:
		return s.checkAppBind(tx, r)
	case platform.BindingKey:
		taken, err := tx.ServiceBindings().Count(platform.Where("instance_guid", b.InstanceGUID).
			And(platform.In("type", platform.BindingKey)).And(platform.In("name", r.Name)))
		if err == nil && taken > 0 {
			err = fault.New(fault.Unprocessable,
				"The binding name is invalid. Key binding names must be unique. The service instance already has a key binding "+
					"with name '%s'.", r.Name)
		}
		return err
	}
	return checkRouteBind(tx, b)
}

func (s *Services) checkAppBind(tx platform.Tx, r Bind) error {
	i := r.Instance
	have, _, err := tx.ServiceBindings().List(platform.Where("app_guid", r.App.GUID).
		And(platform.In("type", platform.BindingApp)))
	if err != nil {
		return err
	}
	for _, b := range have {
		same := b.InstanceGUID == i.GUID
		switch {
		case same && b.Last.InProgress():
			return bindingBusy(r.App.Name, i.Name)
		case same && b.Last.Type == platform.OperationCreate && b.Last.State == platform.OperationFailed:
			// The new binding replaces it. A job deletes the old one at the broker
			// by its guid.
			if err := s.replace(tx, b, i); err != nil {
				return err
			}
		case same && !r.Several:
			return fault.New(fault.Unprocessable, "The app is already bound to the service instance")
		case !same && r.Name != "" && b.Name == r.Name:
			return fault.New(fault.Unprocessable,
				"The binding name is invalid. App binding names must be unique. The app already has a binding with name '%s'.",
				r.Name)
		}
	}
	return nil
}

// replace removes a binding whose create failed.
func (s *Services) replace(tx platform.Tx, b *platform.ServiceBinding, i *platform.ServiceInstance) error {
	if err := tx.ServiceBindings().Delete(b.GUID); err != nil {
		return err
	}
	parts, err := partsOf(tx, i.PlanGUID)
	if err != nil {
		return err
	}
	w := parts.work(create, actions.Actor{}, i.GUID)
	w.Binding = b.GUID
	return s.mitigate(tx, w)
}

func checkRouteBind(tx platform.Tx, b *platform.ServiceBinding) error {
	have, _, err := tx.ServiceBindings().List(platform.Where("route_guid", b.RouteGUID))
	if err != nil {
		return err
	}
	switch {
	case len(have) == 0:
		return nil
	case have[0].InstanceGUID == b.InstanceGUID:
		return fault.New(fault.SameRoute, "The route and service instance are already bound.")
	}
	return fault.New(fault.Unprocessable, "A route may only be bound to a single service instance")
}

func bindingBusy(app, instance string) error {
	return fault.New(fault.BindingBusy,
		"An operation for the service binding between app %s and service instance %s is in progress.", app, instance)
}

// Unbind deletes a binding: immediately if no broker is involved, otherwise through
// the job that it returns.
func (s *Services) Unbind(tx platform.Tx, by actions.Actor, b *platform.ServiceBinding) (*platform.Job, error) {
	i, err := tx.ServiceInstances().Get(b.InstanceGUID)
	if err != nil {
		return nil, err
	}
	if i.Type == platform.ServiceUserProvided {
		return nil, s.Platform.RemoveBinding(tx, by, b, i)
	}
	if b.Last.InProgress() {
		name, err := boundName(tx, b)
		if err != nil {
			return nil, err
		}
		return nil, bindingBusy(name, i.Name)
	}
	if i.Last.InProgress() {
		return nil, platform.InstanceBusy(i)
	}
	parts, err := partsOf(tx, i.PlanGUID)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	b.Last = platform.LastOperation{Type: platform.OperationDelete, State: platform.OperationInProgress, Created: now,
		Updated: now}
	if err := s.Platform.UpdateBinding(tx, b); err != nil {
		return nil, err
	}
	w := parts.work(remove, by, i.GUID)
	w.Binding, w.BindingID = b.GUID, b.BrokerID
	operation, resource := operationOf(b, "delete")
	return s.insertJob(tx, operation, resource, b.GUID, w)
}
