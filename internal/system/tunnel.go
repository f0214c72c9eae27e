package system

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/controller"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/sshd"
)

// tunnels is the engine as the ssh gateway sees it. Connections begin inside the
// instance, with one exception: a developer of a space reaches its bundled
// services with a service key through any of its apps (cf ssh -L), although the
// instance itself reaches only those that the app is bound to.
type tunnels struct {
	engine.Engine
	*runtime
}

var _ sshd.Engine = tunnels{}

// Dial implements sshd.Engine.
func (t tunnels) Dial(ctx context.Context, id, network, address string) (net.Conn, error) {
	b := t.broker.Load()
	at, err := netip.ParseAddrPort(address)
	if err != nil || b == nil {
		return t.Engine.Dial(ctx, id, network, address)
	}
	in, err := t.Engine.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	app := in.Labels[controller.LabelApp]
	instances, err := t.servicesNear(ctx, app)
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

// servicesNear are the managed service instances of the space of an app.
func (r *runtime) servicesNear(ctx context.Context, app string) (guids []string, err error) {
	err = r.store.View(ctx, func(tx platform.Tx) error {
		guids = nil
		a, err := tx.Apps().Get(app)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		all, _, err := tx.ServiceInstances().List(platform.Where("visible_in_space_guid", a.SpaceGUID).And(platform.In("type", platform.ServiceManaged)))
		for _, i := range all {
			guids = append(guids, i.GUID)
		}
		return err
	})
	return guids, err
}
