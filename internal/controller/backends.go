package controller

import (
	"cmp"
	"reflect"
	"slices"

	"ingot/internal/cf"
)

// Backend is an instance that takes requests.
type Backend struct {
	InstanceGUID string
	Index        int
	// Ports are those that it opened when it was started.
	Ports []cf.InstancePort
	Ready bool
}

// Backends are the instances of a process that run and are ready, by index. The
// answer is from memory and must not be changed.
func (c *Controller) Backends(appGUID, processType string) []Backend {
	c.routing.RLock()
	defer c.routing.RUnlock()
	return c.backends[appGUID][processType]
}

// publish makes the backends of the app those of the pass and tells of a
// change. It comes before anything is done to an instance.
func (p *pass) publish() {
	var now map[string][]Backend
	for at, s := range p.slots {
		kind := p.typeOf(at)
		if !s.routable() || kind == "" {
			continue
		}
		if now == nil {
			now = map[string][]Backend{}
		}
		now[kind] = append(now[kind], Backend{InstanceGUID: s.id, Index: at.index, Ports: s.ports, Ready: true})
	}
	for _, all := range now {
		slices.SortFunc(all, func(x, y Backend) int {
			return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.InstanceGUID, y.InstanceGUID))
		})
	}
	p.routing.Lock()
	changed := !reflect.DeepEqual(p.backends[p.app.guid], now)
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
