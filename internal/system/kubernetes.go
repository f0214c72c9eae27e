package system

import (
	"cmp"
	"context"
	"os"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/kubernetes"
)

// protectInterval is how soon instances that were scaled are protected from a drain of
// their nodes.
const protectInterval = 15 * time.Second

// onKubernetes returns the options of the Kubernetes engine. The authority of the agents
// and the key of the installation are in the database, for all servers.
func (r *runtime) onKubernetes(c Config) func(context.Context) (kubernetes.Options, error) {
	return func(ctx context.Context) (kubernetes.Options, error) {
		o := kubernetes.Options{Config: c.Kubernetes, Log: c.Log, Displaced: func(id, reason string) {
			if apps := r.replacing.Load(); apps != nil { // else it learns that when it adopts the instance
				apps.Displaced(id, reason)
				r.tasks.Displaced(id, reason)
			}
		}}
		stored, err := loadAgentKeys(ctx, r.store)
		if err != nil {
			return o, err
		}
		all, err := stored.parse()
		if err != nil {
			return o, err
		}
		o.Install, o.Authority, o.Key, o.Older = stored.Install, all[0].Authority, all[0].Key, all[1:]
		o.Reload = func(ctx context.Context) ([]agent.Keys, error) {
			stored, err := loadAgentKeys(ctx, r.store)
			if err != nil {
				return nil, err
			}
			return stored.parse()
		}
		name, _ := os.Hostname() // only for logs of agents
		o.Server = cmp.Or(name, "ingot")
		if c.seams.kubernetes != nil {
			c.seams.kubernetes(&o)
		}
		return o, nil
	}
}

// protect keeps a drain of several nodes from stopping several instances of a process at
// once.
func (r *runtime) protect(ctx context.Context) {
	e, ok := r.engine.(*kubernetes.Engine)
	if !ok || !r.cluster.Lead(ctx, "protect") {
		return
	}
	wanted := map[string]int{}
	err := r.store.View(ctx, func(tx platform.Tx) error {
		several, _, err := tx.Processes().List(platform.Query{Where: []platform.Cond{{Field: "instances", Op: platform.OpGreater, Values: []any{1}}}})
		for _, p := range several {
			wanted[p.GUID] = p.Instances
		}
		return err
	})
	if err == nil {
		err = e.Protect(ctx, wanted)
	}
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "instances could not be protected from drains of nodes", "error", err)
	}
}
