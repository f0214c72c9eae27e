package agentkeys

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/kubernetes"
)

const (
	// Interval is how often servers look for a rotation of the agents' keys.
	Interval = time.Minute
	// retireAfter is how long keys are kept after a rotation at least: by then every
	// server creates Pods with the new ones.
	retireAfter = time.Hour
	// Most is how many rotations can be unfinished.
	Most = 4
)

// The secrets of the installation. The last two are those of the version before there
// was a rotation.
const (
	keysSecret      = "agent-keys"
	authoritySecret = "agent-authority"
	installSecret   = "install-key"
)

// Secrets are sealed values of an installation, which its servers share.
type Secrets interface {
	// Secret returns a secret, which is created if there is none.
	Secret(ctx context.Context, name string, create func() ([]byte, error)) (value []byte, created bool, err error)
	// ChangeSecret changes a secret in one transaction. If change returns nil, the secret is
	// deleted. It fails with platform.ErrNoSecret if there is none.
	ChangeSecret(ctx context.Context, name string, change func(value []byte) ([]byte, error)) error
}

// Stored is the secret with the keys.
type Stored struct {
	Install string      `json:"install"`
	Keys    []StoredKey `json:"keys"` // newest first
}

// StoredKey is one of them.
type StoredKey struct {
	Created   time.Time `json:"created"`
	Authority []byte    `json:"authority"`
	Key       []byte    `json:"key"`
}

func store(k agent.Keys) StoredKey {
	return StoredKey{Created: time.Now().UTC(), Authority: k.Authority.Bytes(), Key: k.Key}
}

// Parse returns the keys, the newest first.
func (a Stored) Parse() ([]agent.Keys, error) {
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

// Load reads the keys. The first server creates them.
func Load(ctx context.Context, secrets Secrets) (a Stored, err error) {
	text, _, err := secrets.Secret(ctx, keysSecret, func() ([]byte, error) {
		k, err := first(ctx, secrets)
		if err != nil {
			return nil, err
		}
		return json.Marshal(Stored{Install: kubernetes.InstallName(k.Key), Keys: []StoredKey{store(k)}})
	})
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	return a, err
}

// first returns the keys of an earlier version, or new ones.
func first(ctx context.Context, secrets Secrets) (k agent.Keys, err error) {
	none := func() ([]byte, error) { return nil, platform.ErrNoSecret }
	authority, _, err := secrets.Secret(ctx, authoritySecret, none)
	if errors.Is(err, platform.ErrNoSecret) {
		return agent.NewKeys()
	}
	if err != nil {
		return k, err
	}
	if k.Key, _, err = secrets.Secret(ctx, installSecret, none); err != nil {
		return k, err
	}
	k.Authority, err = agent.ParseAuthority(authority)
	return k, err
}

// Rotate adds new keys. Servers use them for new instances within a minute, and delete the old
// ones when no instance has them any more.
func Rotate(ctx context.Context, secrets Secrets) error {
	fresh, err := agent.NewKeys()
	if err != nil {
		return err
	}
	err = secrets.ChangeSecret(ctx, keysSecret, func(old []byte) ([]byte, error) {
		var a Stored
		if err := json.Unmarshal(old, &a); err != nil {
			return nil, err
		}
		if len(a.Keys) >= Most {
			return nil, fmt.Errorf("instances with the keys of %d earlier rotations still run: restart those apps first",
				len(a.Keys)-1)
		}
		a.Keys = slices.Insert(a.Keys, 0, store(fresh))
		return json.Marshal(a)
	})
	if errors.Is(err, platform.ErrNoSecret) {
		return errors.New("no server with --engine kubernetes has used this database, so there are no keys to rotate")
	}
	return err
}

// Keeper uses the newest keys on a server, and deletes old ones.
type Keeper struct {
	Secrets Secrets
	Engine  *kubernetes.Engine
	// Lead reports whether this server, of those of the installation, deletes keys.
	Lead func(context.Context) bool
	// RetireAfter is how long keys are kept after a rotation at least; 0 means an hour.
	RetireAfter time.Duration
	Log         *slog.Logger
}

// Check uses the newest keys of agents, and deletes those that no instance has any more.
func (k *Keeper) Check(ctx context.Context) {
	err := k.Engine.Rekey(ctx, 0)
	if err == nil && k.Lead(ctx) {
		err = k.retire(ctx)
	}
	if err != nil && ctx.Err() == nil {
		k.Log.WarnContext(ctx, "the keys of agents could not be checked", "error", err)
	}
}

func (k *Keeper) retire(ctx context.Context) error {
	stored, err := Load(ctx, k.Secrets)
	if err != nil || len(stored.Keys) < 2 {
		return err
	}
	used, err := k.Engine.KeysInUse(ctx)
	if err != nil {
		return err
	}
	after := cmp.Or(k.RetireAfter, retireAfter)
	var gone []string
	err = k.Secrets.ChangeSecret(ctx, keysSecret, func(old []byte) ([]byte, error) {
		gone = nil
		var a Stored
		if err := json.Unmarshal(old, &a); err != nil {
			return nil, err
		}
		kept := a.Keys[:1:1]
		for i, old := range a.Keys[1:] {
			id := agent.Keys{Key: old.Key}.ID()
			if used[id] || time.Since(a.Keys[i].Created) < after {
				kept = append(kept, old)
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
	k.Log.InfoContext(ctx, "deleted old keys of agents, which no instance has any more", "keys", gone)
	for _, name := range []string{authoritySecret, installSecret} {
		err := k.Secrets.ChangeSecret(ctx, name, func([]byte) ([]byte, error) { return nil, nil })
		if err != nil && !errors.Is(err, platform.ErrNoSecret) {
			return err
		}
	}
	return k.Engine.Rekey(ctx, 0)
}
