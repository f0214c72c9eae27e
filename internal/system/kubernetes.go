package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/agentkeys"
	"ingot/internal/platform/platformdb"
	"ingot/internal/server/databases"
	"ingot/internal/server/steps"
)

// protectInterval is how soon instances that were scaled are protected from a drain of
// their nodes.
const protectInterval = 15 * time.Second

// onKubernetes returns the options of the Kubernetes engine. The authority of the agents
// and the key of the installation are in the database, for all servers.
func (r *runtime) onKubernetes(ctx context.Context, c Config) (kubernetes.Options, error) {
	o := kubernetes.Options{Config: c.Kubernetes, Log: c.Log, Displaced: func(id, reason string) {
		if apps := r.replacing.Load(); apps != nil { // else it learns that when it adopts the instance
			apps.Displaced(id, reason)
			r.Tasks.Displaced(id, reason)
		}
	}}
	stored, err := agentkeys.Load(ctx, r.store)
	if err != nil {
		return o, err
	}
	all, err := stored.Parse()
	if err != nil {
		return o, err
	}
	o.Install, o.Authority, o.Key, o.Older = stored.Install, all[0].Authority, all[0].Key, all[1:]
	o.Reload = func(ctx context.Context) ([]agent.Keys, error) {
		stored, err := agentkeys.Load(ctx, r.store)
		if err != nil {
			return nil, err
		}
		return stored.Parse()
	}
	name, _ := os.Hostname() // only for logs of agents
	o.Server = cmp.Or(name, "ingot")
	if c.seams.kubernetes != nil {
		c.seams.kubernetes(&o)
	}
	return o, nil
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
		several, _, err := tx.Processes().
			List(platform.Query{Where: []platform.Cond{{Field: "instances", Op: platform.OpGreater, Values: []any{1}}}})
		for _, p := range several {
			wanted[p.GUID] = p.Instances
		}
		return err
	})
	if err == nil {
		err = e.Protect(ctx, wanted)
	}
	if err != nil && ctx.Err() == nil {
		r.Log.WarnContext(ctx, "instances could not be protected from drains of nodes", "error", err)
	}
}

// keepKeys returns what rotates the keys of agents; nil on other engines.
func (r *runtime) keepKeys() *agentkeys.Keeper {
	e, ok := r.engine.(*kubernetes.Engine)
	if !ok {
		return nil
	}
	return &agentkeys.Keeper{Secrets: r.store, Engine: e, Lead: leadOf(r.cluster, "agent-keys"), Log: r.Log}
}

// RotateAgentKeys adds new keys of agents to the database of an installation, see
// agentkeys.Rotate.
func RotateAgentKeys(ctx context.Context, dataDir, databaseURL, encryptionKey string, log *slog.Logger) error {
	if err := databases.CheckURL(databaseURL); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	keys, err := datadir.ReadKeys(dataDir, encryptionKey)
	if err != nil {
		return err
	}
	var s steps.Stack
	defer s.Unwind()
	url, err := databases.Existing(dataDir, databaseURL)
	if err != nil {
		return err
	}
	d, err := s.OpenDB(ctx, db.Options{URL: url, Keys: keys, Log: log})
	if err != nil {
		return err
	}
	found, known, err := d.SchemaVersion(ctx, platformdb.Migrations)
	if err != nil {
		return err
	}
	if found < known {
		return errors.New("the database was not migrated to this version: start the servers first, or run 'ingot db migrate'")
	}
	return agentkeys.Rotate(ctx, platformdb.New(d))
}
