package kubernetes

// manySilent is when silence of agents means that this server is cut off: more than a third
// of those it follows, and more than one.
const manySilent = 3

// heard notes that an agent answers.
func (e *Engine) heard(p *pod) { e.learn(p, func(k *known) { k.silent = false }) }

// silent notes that an agent has not answered for a while. Its instance is displaced,
// unless so many are silent that it is this server that is cut off.
func (e *Engine) silent(p *pod) {
	e.learn(p, func(k *known) { k.silent = true })
	e.mu.Lock()
	quiet, all := 0, 0
	for _, k := range e.known {
		if k.silent {
			quiet++
		}
		if k.silent || k.followed > 0 {
			all++
		}
	}
	e.mu.Unlock()
	if quiet > 1 && quiet*manySilent > all {
		e.log.Warn("many instances do not answer: this server is cut off from them, and replaces none", "silent", quiet, "of", all)
		return
	}
	e.displace(p, "its node does not answer")
}
