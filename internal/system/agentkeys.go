package system

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/platformdb"
	"ingot/internal/server/databases"
	"ingot/internal/server/steps"
)

const (
	// rekeyInterval is how often servers look for a rotation of the agents' keys.
	rekeyInterval = time.Minute
	// retireAfter is how long keys are kept after a rotation at least: by then every
	// server creates Pods with the new ones.
	retireAfter = time.Hour
	// maxAgentKeys is how many rotations can be unfinished.
	maxAgentKeys = 4
)

// The secrets of the installation. The last two are those of the version before there
// was a rotation.
const (
	agentKeysSecret      = "agent-keys"
	agentAuthoritySecret = "agent-authority"
	installKeySecret     = "install-key"
)

// agentKeys is the secret of an installation with the keys of its agents.
type agentKeys struct {
	Install string           `json:"install"`
	Keys    []storedAgentKey `json:"keys"` // newest first
}

type storedAgentKey struct {
	Created   time.Time `json:"created"`
	Authority []byte    `json:"authority"`
	Key       []byte    `json:"key"`
}

func storeAgentKey(k agent.Keys) storedAgentKey {
	return storedAgentKey{Created: time.Now().UTC(), Authority: k.Authority.Bytes(), Key: k.Key}
}

func (a agentKeys) parse() ([]agent.Keys, error) {
	all := make([]agent.Keys, len(a.Keys))
	for i, k := range a.Keys {
		authority, err := agent.ParseAuthority(k.Authority)
		if err != nil {
			return nil, err
		}
		all[i] = agent.Keys{Authority: authority, Key: k.Key}
	}
	if len(all) == 0 {
		return nil, errors.New("keys of agents: the secret has none")
	}
	return all, nil
}

// loadAgentKeys reads the keys of agents. The first server creates them.
func loadAgentKeys(ctx context.Context, store *platformdb.Store) (a agentKeys, err error) {
	text, _, err := store.Secret(ctx, agentKeysSecret, func() ([]byte, error) {
		k, err := firstAgentKeys(ctx, store)
		if err != nil {
			return nil, err
		}
		return json.Marshal(agentKeys{Install: kubernetes.InstallName(k.Key), Keys: []storedAgentKey{storeAgentKey(k)}})
	})
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}

// firstAgentKeys returns the keys of an earlier version, or new ones.
func firstAgentKeys(ctx context.Context, store *platformdb.Store) (k agent.Keys, err error) {
	none := func() ([]byte, error) { return nil, platformdb.ErrNoSecret }
	authority, _, err := store.Secret(ctx, agentAuthoritySecret, none)
	if errors.Is(err, platformdb.ErrNoSecret) {
		return agent.NewKeys()
	}
	if err != nil {
		return k, err
	}
	if k.Key, _, err = store.Secret(ctx, installKeySecret, none); err != nil {
		return k, err
	}
	k.Authority, err = agent.ParseAuthority(authority)
	return k, err
}

// RotateAgentKeys adds new keys of agents to the database of an installation. Servers use
// them for new instances within a minute, and delete the old ones when no instance has
// them any more.
func RotateAgentKeys(ctx context.Context, dataDir, databaseURL, encryptionKey string, log *slog.Logger) error {
	if err := databases.CheckURL(databaseURL); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	keys, err := datadir.ReadKeys(dataDir, encryptionKey)
	if err != nil {
		return err
	}
	fresh, err := agent.NewKeys()
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
	err = platformdb.New(d).ChangeSecret(ctx, agentKeysSecret, func(old []byte) ([]byte, error) {
		var a agentKeys
		if err := json.Unmarshal(old, &a); err != nil {
			return nil, err
		}
		if len(a.Keys) >= maxAgentKeys {
			return nil, fmt.Errorf("instances with the keys of %d earlier rotations still run: restart those apps first", len(a.Keys)-1)
		}
		a.Keys = slices.Insert(a.Keys, 0, storeAgentKey(fresh))
		return json.Marshal(a)
	})
	if errors.Is(err, platformdb.ErrNoSecret) {
		return errors.New("no server with --engine kubernetes has used this database, so there are no keys to rotate")
	}
	return err
}

// rekey uses the newest keys of agents, and deletes those that no instance has any more.
func (r *runtime) rekey(ctx context.Context) {
	e, ok := r.engine.(*kubernetes.Engine)
	if !ok {
		return
	}
	err := e.Rekey(ctx, 0)
	if err == nil && r.cluster.Lead(ctx, "agent-keys") {
		err = r.retireAgentKeys(ctx, e)
	}
	if err != nil && ctx.Err() == nil {
		r.log.WarnContext(ctx, "the keys of agents could not be checked", "error", err)
	}
}

func (r *runtime) retireAgentKeys(ctx context.Context, e *kubernetes.Engine) error {
	stored, err := loadAgentKeys(ctx, r.store)
	if err != nil || len(stored.Keys) < 2 {
		return err
	}
	used, err := e.KeysInUse(ctx)
	if err != nil {
		return err
	}
	after := cmp.Or(r.retireAfter, retireAfter)
	var gone []string
	err = r.store.ChangeSecret(ctx, agentKeysSecret, func(old []byte) ([]byte, error) {
		gone = nil
		var a agentKeys
		if err := json.Unmarshal(old, &a); err != nil {
			return nil, err
		}
		kept := a.Keys[:1:1]
		for i, k := range a.Keys[1:] {
			id := agent.Keys{Key: k.Key}.ID()
			if used[id] || time.Since(a.Keys[i].Created) < after {
				kept = append(kept, k)
			} else {
				gone = append(gone, id)
			}
		}
		a.Keys = kept
		return json.Marshal(a)
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	r.log.InfoContext(ctx, "deleted old keys of agents, which no instance has any more", "keys", gone)
	for _, name := range []string{agentAuthoritySecret, installKeySecret} {
		err := r.store.ChangeSecret(ctx, name, func([]byte) ([]byte, error) { return nil, nil })
		if err != nil && !errors.Is(err, platformdb.ErrNoSecret) {
			return err
		}
	}
	return e.Rekey(ctx, 0)
}
