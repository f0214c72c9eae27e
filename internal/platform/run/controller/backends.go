package controller

import (
	"maps"
	"reflect"
	"slices"

	"ingot/internal/platform"
)

// Backend is an instance that accepts requests.
type Backend struct {
	InstanceGUID string
	ProcessGUID  string
	Index        int
	// Ports are the ports that it opened at its start.
	Ports []platform.InstancePort
	Ready bool
}

// Backends returns the running and ready instances of a process, by index. The result comes
// from memory and must not be changed.
func (c *Controller) Backends(appGUID, processType string) []Backend {
	c.routing.RLock()
	defer c.routing.RUnlock()
	return c.backends[appGUID][processType]
}

// publish sets the app's backends to those of the pass and notifies the sink of a change.
// It comes before any action on an instance.
//
// With more, it only adds backends: that is done before rows are written, so that a client
// that reads there that an instance runs can reach it.
func (p *pass) publish(more bool) {
	var now map[string][]Backend
	for at, s := range p.slots {
		kind := p.typeOf(at)
		if !s.routable() || kind == "" {
			continue
		}
		if now == nil {
			now = map[string][]Backend{}
		}
		now[kind] = append(now[kind], Backend{InstanceGUID: s.id, ProcessGUID: at.process, Index: at.index, Ports: s.ports, Ready: true})
	}
	if more && now == nil {
		return
	}
	p.routing.Lock()
	before := p.backends[p.app.guid]
	p.routing.Unlock()
	if more {
		now = together(before, now)
	}
	for _, all := range now {
		slices.SortFunc(all, byIndex)
	}
	changed := !reflect.DeepEqual(before, now)
	p.routing.Lock()
	if now == nil {
		delete(p.backends, p.app.guid)
	} else {
		p.backends[p.app.guid] = now
	}
	p.routing.Unlock()
	if changed && p.sink != nil {
		p.sink.AppChanged(p.app.guid)
	}
}

// together merges both; backends in now take precedence.
func together(before, now map[string][]Backend) map[string][]Backend {
	all := maps.Clone(now)
	for kind, old := range before {
		all[kind] = slices.Clone(now[kind])
		for _, b := range old {
			if !slices.ContainsFunc(now[kind], func(n Backend) bool { return n.InstanceGUID == b.InstanceGUID }) {
				all[kind] = append(all[kind], b)
			}
		}
	}
	return all
}
