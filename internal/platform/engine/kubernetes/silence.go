package kubernetes

import "slices"

// manySilent is when silence of agents means that this server is cut off: more than a third
// of those it follows, and more than one.
const manySilent = 3

// heard notes that an agent answers.
func (e *Engine) heard(p *pod) { e.learn(p, func(k *known) { k.silent = false }) }

// silent notes that an agent has not answered for a while. Its instance is displaced,
// unless so many are silent that it is this server that is cut off. All of one node are
// not too many, if those of other nodes answer.
func (e *Engine) silent(p *pod) {
	e.learn(p, func(k *known) { k.silent, k.node = true, p.Spec.NodeName })
	e.mu.Lock()
	e.anySilent = true
	quiet, all := 0, 0
	for _, k := range e.known {
		if k.silent {
			quiet++
		}
		if k.silent || k.followed > 0 {
			all++
		}
	}
	nodes, others := e.silentNodes()
	e.mu.Unlock()
	if quiet > 1 && quiet*manySilent > all && !(len(nodes) == 1 && others > 0) {
		e.log.Warn("many instances do not answer: this server is cut off from them, and replaces none", "silent",
			quiet, "of", all)
		return
	}
	e.displace(p, "its node does not answer")
}

// silentNodes returns the nodes on which an agent is silent and none answers, and the
// number of nodes on which all answer. mu must be held.
func (e *Engine) silentNodes() (silent []string, others int) {
	answers, quiet := map[string]bool{}, map[string]bool{}
	for _, k := range e.known {
		switch {
		case k.node == "":
		case k.silent:
			quiet[k.node] = true
		case k.followed > 0:
			answers[k.node] = true
		}
	}
	e.anySilent = len(quiet) > 0
	for node := range quiet {
		if !answers[node] {
			silent = append(silent, node)
		}
	}
	for node := range answers {
		if !quiet[node] {
			others++
		}
	}
	slices.Sort(silent)
	return silent, others
}

// avoid returns the nodes that get no new instances: the scheduler still uses a node for up
// to a minute after it was lost, and prefers it, because it lacks an instance.
func (e *Engine) avoid() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.anySilent { // nothing is counted for each start of a large installation
		return nil
	}
	silent, others := e.silentNodes()
	if others < len(silent) {
		return nil // this server may be cut off from them
	}
	return silent
}
