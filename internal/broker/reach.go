package broker

import (
	"context"
	"net"
	"net/netip"
	"slices"
)

// Endpoints returns the addresses of the service instances that an app is bound
// to, or none if apps share this machine's network.
func (b *Broker) Endpoints(ctx context.Context, app string) ([]netip.AddrPort, error) {
	return b.endpoints(ctx, func(i *instance) bool {
		for _, to := range i.Bindings {
			if to.Phase == ready && to.AppGUID == app {
				return true
			}
		}
		return false
	})
}

// EndpointsOf returns the addresses of service instances.
func (b *Broker) EndpointsOf(ctx context.Context, instances ...string) ([]netip.AddrPort, error) {
	return b.endpoints(ctx, func(i *instance) bool { return slices.Contains(instances, i.ID) })
}

// Dial connects this process to one of the addresses of EndpointsOf. The
// connection counts as one of source, an app.
func (b *Broker) Dial(ctx context.Context, source string, at netip.AddrPort) (net.Conn, error) {
	return b.forward.Dial(ctx, source, at)
}

func (b *Broker) endpoints(ctx context.Context, of func(*instance) bool) ([]netip.AddrPort, error) {
	if !b.config.Reach.Host.IsValid() {
		return nil, nil
	}
	var all []netip.AddrPort
	for _, i := range b.state.list() {
		if i.Phase != ready || !of(i) {
			continue
		}
		s, err := b.backendOf(i)
		if err != nil {
			continue // logged at the start
		}
		at := s.target(i)
		if at.Port == 0 {
			continue
		}
		list, err := b.forward.Addresses(ctx, at)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all), nil
}

// openListeners makes the servers of all instances reachable from containers, and
// reports whether all succeeded. A failure, such as a port in use, is retried and
// does not prevent the start.
func (b *Broker) openListeners(ctx context.Context) (all bool) {
	all = true
	fail := func(err error) {
		if err != nil && ctx.Err() == nil {
			all = false
			b.config.Log.Error("open service to containers failed, retrying", "error", err)
		}
	}
	for _, i := range b.state.list() {
		if i.Phase != ready {
			continue // its creation opens it
		}
		release, free := b.state.tryAcquire(i.ID)
		if !free {
			all = false
			continue
		}
		if i := b.state.get(i.ID); i != nil && i.Phase == ready {
			if s, err := b.backendOf(i); err == nil {
				fail(b.openListener(ctx, s, i))
			}
		}
		release()
	}
	return all
}

func (b *Broker) openListener(ctx context.Context, s backend, i *instance) error {
	at := s.target(i)
	if at.Port == 0 {
		return nil
	}
	starter, ok := s.(interface {
		connect(ctx context.Context, i *instance) (net.Conn, func(), error)
	})
	if !ok {
		return b.forward.Open(ctx, at, s.capacity(i), nil)
	}
	id := i.ID
	return b.forward.Open(ctx, at, s.capacity(i), func(ctx context.Context) (net.Conn, func(), error) {
		now := b.state.get(id)
		if now == nil || now.Phase != ready {
			return nil, nil, errDropped
		}
		return starter.connect(ctx, now)
	})
}
