package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/instance/agentproto"
)

// reloadPause is the minimum time between two reloads because of an unknown Pod.
const reloadPause = 5 * time.Second

// dialer connects to agents with one set of keys.
type dialer struct {
	*agent.Dialer
	at time.Time // of its certificate
}

// newestKeys returns the keys of new Pods.
func (e *Engine) newestKeys() agent.Keys {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keys[0]
}

// agent returns the client of a Pod's agent.
func (e *Engine) agent(p *pod) (*agent.Client, error) {
	k, ok := e.keysOf(p)
	if !ok { // another server has rotated the keys
		ctx, cancel := context.WithTimeout(e.open, agentTime)
		err := e.Rekey(ctx, reloadPause)
		cancel()
		if err != nil {
			return nil, err
		}
		if k, ok = e.keysOf(p); !ok {
			return nil, fmt.Errorf("the keys %s of the Pod %s are not known", p.Annotations[annotationKeys], p.Name)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.dialers[k.ID()]
	if d.Dialer == nil || time.Since(d.at) > renewAfter {
		certificate, err := k.Authority.Client(e.options.Server)
		if err != nil {
			return nil, err
		}
		d = dialer{&agent.Dialer{Certificate: certificate}, time.Now()}
		e.dialers[k.ID()] = d
	}
	return d.At(p.id(), joinPort(p.Status.PodIP, agentproto.Port), agent.PublicKey(agent.Seed(k.Key, p.id()))), nil
}

// keysOf returns the keys that a Pod was created with. One without a name of them is
// from a version that had no rotation, so it has the first.
func (e *Engine) keysOf(p *pod) (agent.Keys, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	id := p.Annotations[annotationKeys]
	if id == "" {
		return e.keys[len(e.keys)-1], true
	}
	i := slices.IndexFunc(e.keys, func(k agent.Keys) bool { return k.ID() == id })
	if i < 0 {
		return agent.Keys{}, false
	}
	return e.keys[i], true
}

// Rekey reads the keys again, unless they were read within pause. New Pods get the
// newest.
func (e *Engine) Rekey(ctx context.Context, pause time.Duration) error {
	e.mu.Lock()
	due := e.options.Reload != nil && time.Since(e.reloaded) >= pause
	e.mu.Unlock()
	if !due {
		return nil
	}
	keys, err := e.options.Reload(ctx)
	if err != nil {
		return fmt.Errorf("keys of agents: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys, e.reloaded = keys, time.Now()
	for id := range e.dialers {
		if !slices.ContainsFunc(keys, func(k agent.Keys) bool { return k.ID() == id }) {
			delete(e.dialers, id)
		}
	}
	return nil
}

// KeysInUse returns the ids of the keys that Pods of this installation have, as far as
// the watch has reported them.
func (e *Engine) KeysInUse(ctx context.Context) (map[string]bool, error) {
	used := map[string]bool{}
	all, err := e.pods.all(ctx)
	for _, p := range all {
		if k, ok := e.keysOf(p); ok {
			used[k.ID()] = true
		}
	}
	return used, err
}
