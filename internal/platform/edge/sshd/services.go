package sshd

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/controller"
)

// A Broker runs services that apps and developers connect to.
type Broker interface {
	// EndpointsOf returns the addresses of service instances.
	EndpointsOf(ctx context.Context, instances ...string) ([]netip.AddrPort, error)
	// Dial connects to one of them on behalf of an app.
	Dial(ctx context.Context, app string, to netip.AddrPort) (net.Conn, error)
}

// ServiceTunnels is an Engine whose connections start inside the instance, with
// one exception: through any app of a space, its developers can connect to the
// bundled service instances of the space (cf ssh -L with a service key), although
// the app itself can connect only to those it is bound to.
type ServiceTunnels struct {
	engine.Engine
	Store platform.Store
	// Broker returns the bundled broker; nil while it is not running.
	Broker func() Broker
}

var _ Engine = ServiceTunnels{}

// Dial implements Engine.
func (t ServiceTunnels) Dial(ctx context.Context, id, network, address string) (net.Conn, error) {
	b := t.Broker()
	at, err := netip.ParseAddrPort(address)
	if err != nil || b == nil {
		return t.Engine.Dial(ctx, id, network, address)
	}
	in, err := t.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	app := in.Labels[controller.LabelApp]
	instances, err := t.servicesOfSpace(ctx, app)
	if err != nil {
		return nil, err
	}
	endpoints, err := b.EndpointsOf(ctx, instances...)
	if err != nil {
		return nil, err
	}
	if slices.Contains(endpoints, at) {
		return b.Dial(ctx, app, at)
	}
	return t.Engine.Dial(ctx, id, network, address)
}

// servicesOfSpace returns the managed service instances of the space of an app.
func (t ServiceTunnels) servicesOfSpace(ctx context.Context, app string) (guids []string, err error) {
	err = t.Store.View(ctx, func(tx platform.Tx) error {
		guids = nil
		a, err := tx.Apps().Get(app)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		all, _, err := tx.ServiceInstances().List(platform.Where("visible_in_space_guid", a.SpaceGUID).
			And(platform.In("type", platform.ServiceManaged)))
		for _, i := range all {
			guids = append(guids, i.GUID)
		}
		return err
	})
	return guids, err
}
