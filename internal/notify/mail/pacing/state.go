package pacing

import (
	"cmp"
	"slices"

	"ingot/internal/notify"
)

// Counts returns how often messages were postponed since the start.
func (p *Pacer) Counts() notify.MailPostponed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// Limited returns how many domains are slow, and how many have a lowered rate.
func (p *Pacer) Limited() (slow, lowered int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	for _, d := range p.domains {
		if d.slow {
			slow++
		}
		if p.allowed(d, now); d.rate > 0 {
			lowered++
		}
	}
	return slow, lowered
}

// Domains returns those that get less mail at present or have a configured limit, by name; at most
// notify.MaxMailDomains.
func (p *Pacer) Domains() []notify.MailDomain {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.o.Now()
	all := []notify.MailDomain{}
	for name, d := range p.domains {
		_, listed := p.o.Domains[name]
		rate := p.allowed(d, now)
		if !d.slow && d.rate == 0 && !listed {
			continue
		}
		of := notify.MailDomain{Domain: name, Slow: d.slow, AnswerMS: d.took.Milliseconds(), Rate: rate, Lowered: d.rate > 0,
			Reason: d.why, Sending: d.used + d.side, Connections: p.permits(d)}
		if d.slow {
			of.Connections = max(1, min(p.sidePermits(d)+d.side, p.o.Slow))
		}
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b notify.MailDomain) int { return cmp.Compare(a.Domain, b.Domain) })
	return all[:min(len(all), notify.MaxMailDomains)]
}

// State returns the plan as an operator sees it; nil if there is none.
func (w WarmUp) State() *notify.MailWarmUp {
	if !w.on() {
		return nil
	}
	return &notify.MailWarmUp{First: w.First, Growth: w.Growth, Days: w.Days}
}
