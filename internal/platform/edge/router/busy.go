package router

// Busy reports whether an instance has requests in progress, even if no route maps to it
// any more.
func (p *Proxy) Busy(instanceGUID string) bool {
	p.counters.mu.Lock()
	defer p.counters.mu.Unlock()
	s := p.counters.byInstance[instanceGUID]
	return s != nil && s.active.Load() > 0
}
