package netrules

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

const (
	// interval is how often the rules are read without a change.
	interval = 30 * time.Second
	// applyTime limits one change.
	applyTime = 20 * time.Second
)

// Keeper keeps the rules of an engine up to date, a background.Service.
type Keeper struct {
	background.Part
	store  platform.Store
	engine engine.Enforcer
	log    *slog.Logger
	kicked chan struct{}
	// applying is held from reading the rules until the engine has them, so that older ones
	// never come last.
	applying sync.Mutex
}

// New returns a keeper that is not running.
func New(s platform.Store, e engine.Enforcer, log *slog.Logger) *Keeper {
	return &Keeper{store: s, engine: e, log: log, kicked: make(chan struct{}, 1)}
}

// Start applies the rules and keeps them up to date.
func (k *Keeper) Start(ctx context.Context) error {
	return k.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if err := k.Apply(ctx); err != nil {
			k.log.Error("security groups and network policies could not be applied; this is tried again", "error", err)
		}
		spawn(func() { k.run(work) })
		return nil
	})
}

// Stop leaves the rules as they are.
func (k *Keeper) Stop() { k.Halt(nil) }

// Kick applies the rules soon. It never blocks.
func (k *Keeper) Kick() { background.Kick(k.kicked) }

func (k *Keeper) run(ctx context.Context) {
	for range background.Ticks(ctx, interval, k.kicked) {
		err := background.Do("apply rules", func() error { return k.Apply(ctx) })
		if err != nil && ctx.Err() == nil {
			k.log.ErrorContext(ctx, "security groups and network policies could not be applied; this is tried again",
				"error", err)
		}
	}
}

// Apply applies the rules: when it returns, all instances have them.
func (k *Keeper) Apply(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	k.applying.Lock()
	defer k.applying.Unlock()
	r, err := db.Within(ctx, k.store.View, read)
	if err != nil {
		return err
	}
	return k.engine.Enforce(ctx, r)
}

// read returns the rules in the store.
func read(tx platform.Tx) (engine.Rules, error) {
	r := engine.Rules{Groups: map[string]engine.Group{}, Zones: map[engine.Zone][]string{{}: nil, {Staging: true}: nil}}
	groups, _, err := tx.SecurityGroups().List(platform.Query{})
	if err != nil {
		return r, err
	}
	for _, g := range groups {
		if len(g.Rules) == 0 || !g.Running && !g.Staging && len(g.RunningSpaces)+len(g.StagingSpaces) == 0 {
			continue
		}
		r.Groups[g.GUID] = engine.Group{Name: g.Name, Rules: g.Rules}
		for _, bound := range []struct {
			staging, all bool
			spaces       []string
		}{{false, g.Running, g.RunningSpaces}, {true, g.Staging, g.StagingSpaces}} {
			if bound.all {
				all := engine.Zone{Staging: bound.staging}
				r.Zones[all] = append(r.Zones[all], g.GUID)
				continue
			}
			for _, space := range bound.spaces {
				zone := engine.Zone{Space: space, Staging: bound.staging}
				r.Zones[zone] = append(r.Zones[zone], g.GUID)
			}
		}
	}
	policies, _, err := tx.NetworkPolicies().List(platform.Query{})
	if err != nil {
		return r, err
	}
	for _, p := range policies {
		p.Resource = platform.Resource{}
		r.Policies = append(r.Policies, *p)
	}
	for zone, own := range maps.Collect(maps.All(r.Zones)) {
		if zone.Space != "" {
			own = append(own, r.Zones[engine.Zone{Staging: zone.Staging}]...)
		}
		slices.Sort(own)
		r.Zones[zone] = slices.Compact(own)
	}
	return r, nil
}
