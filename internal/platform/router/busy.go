package router

// Busy tells whether an instance has requests under way, also when no route
// leads to it any more.
func (p *Proxy) Busy(instanceGUID string) bool {
	p.counters.mu.Lock()
	defer p.counters.mu.Unlock()
	s := p.counters.byInstance[instanceGUID]
	return s != nil && s.active.Load() > 0
}
