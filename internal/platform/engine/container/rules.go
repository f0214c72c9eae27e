//go:build linux

package container

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"

	"ingot/internal/platform/engine"
)

var _ engine.Enforcer = (*Engine)(nil)

// Allow sets what all instances may connect to, over TCP and UDP, replacing what was
// allowed before. Established connections are not cut.
func (e *Engine) Allow(_ context.Context, tcp, udp []Endpoint) error { return e.net.Allow(tcp, udp) }

// FirewallRestored returns how often another program has changed the firewall since this
// engine was opened. It was restored each time, or Held of Describe says why not.
func (e *Engine) FirewallRestored() int64 { return e.net.Restored() }

// Gateway returns the host's address as seen by instances. Services for them can listen
// there, and need Allow or the Reach of an instance.
func (e *Engine) Gateway() netip.Addr { return e.net.Gateway() }

// Subnet returns the instances' network. Services on Gateway should refuse all other
// clients.
func (e *Engine) Subnet() netip.Prefix { return e.net.Subnet() }

// Labels returns the labels of the instance that has an address; nil if there is none.
func (e *Engine) Labels(a netip.Addr) map[string]string {
	in, err := e.find(e.net.Owner(a))
	if err != nil {
		return nil
	}
	return in.dir.Meta().Labels
}

// Enforce implements engine.Enforcer.
func (e *Engine) Enforce(_ context.Context, r engine.Rules) error { return e.net.Enforce(r) }

// Complete sets the Reach, the zone and the app of instances that were started by an older
// server without them.
func (e *Engine) Complete(reach func(labels map[string]string) []Endpoint,
	zone func(labels map[string]string) (engine.Zone, string)) error {
	e.mu.Lock()
	all := slices.Collect(maps.Values(e.instances))
	e.mu.Unlock()
	var errs []error
	for _, in := range all {
		if in.Reach != nil && in.Zone != nil {
			continue
		}
		labels, may := in.dir.Meta().Labels, in.access()
		if in.Reach == nil {
			may.Reach = reach(labels)
		}
		if in.Zone == nil {
			may.Zone, may.App = zone(labels)
		}
		errs = append(errs, e.net.Admit(in.Addr, &may))
	}
	return errors.Join(errs...)
}
