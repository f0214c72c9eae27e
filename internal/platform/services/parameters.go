package services

import (
	"context"
	"errors"

	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/services/osb"
)

// InstanceParameters fetches the parameters of an instance from its broker.
func (s *Services) InstanceParameters(ctx context.Context, i *platform.ServiceInstance,
	user string) (map[string]any, error) {
	parts, err := s.partsIn(ctx, i)
	if err != nil {
		return nil, err
	}
	if !parts.offering.InstancesRetrievable {
		return nil, fault.New(fault.BadRequest, "This service does not support fetching service instance parameters.")
	}
	if i.Last.InProgress() {
		return nil, platform.InstanceBusy(i)
	}
	id := osb.Instance{ID: i.GUID, ServiceID: parts.offering.CatalogID, PlanID: parts.plan.CatalogID}
	out, err := s.client.FetchInstance(ctx, brokerOf(parts.broker), id, user)
	return out, atOnce(err)
}

// BindingParameters fetches the parameters of a binding from its broker.
func (s *Services) BindingParameters(ctx context.Context, i *platform.ServiceInstance, b *platform.ServiceBinding,
	user string) (map[string]any, error) {
	parts, err := s.partsIn(ctx, i)
	if err != nil {
		return nil, err
	}
	if !parts.offering.BindingsRetrievable {
		return nil, fault.New(fault.BadRequest, "This service does not support fetching service binding parameters.")
	}
	id := osb.Instance{ID: i.GUID, ServiceID: parts.offering.CatalogID, PlanID: parts.plan.CatalogID}
	out, err := s.client.FetchBindingParameters(ctx, brokerOf(parts.broker), id, b.AtBroker(), user)
	return out, atOnce(err)
}

func (s *Services) partsIn(ctx context.Context, i *platform.ServiceInstance) (planParts, error) {
	return db.Within(ctx, s.Store.View, func(tx platform.Tx) (planParts, error) { return partsOf(tx, i.PlanGUID) })
}

// atOnce returns the error of a synchronous call to a broker.
func atOnce(err error) error {
	var e *osb.Error
	if errors.As(err, &e) {
		return fault.Wrap(err, fault.BadBroker, "%s", e.Message)
	}
	return err
}
