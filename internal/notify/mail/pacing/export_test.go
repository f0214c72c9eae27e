package pacing

// Sizes returns how many domains are remembered, and how many clients of one.
func Sizes(p *Pacer, name string) (domains, shares int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.domains[name]; d != nil {
		shares = len(d.shares)
	}
	return len(p.domains), shares
}
