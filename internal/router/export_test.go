package router

import "time"

// ExpressServed is how many requests express lanes have served.
func ExpressServed(p *Proxy) int64 { return p.counters.express.Load() }

// Sign is for tests of signatures that are not fresh.
func Sign(p *Proxy, forwarded string, at time.Time) (signature, metadata string) {
	return p.sign(forwarded, at)
}
