package appinfo

import (
	"context"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/token"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/drain"
	"ingot/internal/platform/run/controller/usage"
)

const (
	// namesFresh is how long names are cached that another server may have
	// changed; for changes by this one Forget is called.
	namesFresh = 5 * time.Second
	// maxNames is the number of apps whose names are cached.
	maxNames = 10000
)

// Info answers what logs and drains need to know about apps. It implements
// logs.Access and drain.Source.
type Info struct {
	store   platform.Store
	usage   func(ctx context.Context, instances ...string) map[string]usage.Usage
	server  map[string]string // tags that all envelopes have
	changes atomic.Uint64

	mu    sync.Mutex
	known map[string]namedApp
}

var (
	_ logs.Access  = (*Info)(nil)
	_ drain.Source = (*Info)(nil)
)

type namedApp struct {
	about   *logs.About
	changes uint64
	at      time.Time
}

// New returns the Info of a server that listens on an address. usage measures
// instances that are running.
func New(store platform.Store, listen string, usage func(ctx context.Context,
	instances ...string) map[string]usage.Usage) *Info {
	ip, _, err := net.SplitHostPort(listen)
	if addr := net.ParseIP(ip); err != nil || addr == nil || addr.IsUnspecified() {
		ip = "127.0.0.1"
	}
	return &Info{
		store: store, usage: usage, known: map[string]namedApp{},
		server: map[string]string{"deployment": "ingot", "index": "0", "ip": ip},
	}
}

// About implements logs.Access. For an app that does not exist it returns only
// the tags of the server.
func (n *Info) About(ctx context.Context, app string) *logs.About {
	// Loaded before the store is read, so that a change in between is read again.
	changes, now := n.changes.Load(), time.Now()
	n.mu.Lock()
	known, ok := n.known[app]
	n.mu.Unlock()
	if ok && known.changes == changes && now.Sub(known.at) < namesFresh {
		return known.about
	}
	about, err := db.Within(ctx, n.store.View, func(tx platform.Tx) (logs.About, error) { return n.aboutIn(tx, app) })
	if err != nil {
		if ok {
			return known.about // better than nothing
		}
		return &logs.About{Tags: n.server}
	}
	fresh := &about
	if ok && sameAbout(known.about, fresh) {
		fresh = known.about // so that callers can compare pointers
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.known) >= maxNames {
		clear(n.known)
	}
	n.known[app] = namedApp{fresh, changes, now}
	return fresh
}

// Forget empties the cache of names, because one of them changed.
func (n *Info) Forget() { n.changes.Add(1) }

func sameAbout(a, b *logs.About) bool {
	return maps.Equal(a.Tags, b.Tags) && maps.Equal(a.Processes, b.Processes) && maps.Equal(a.Replaced, b.Replaced)
}

// aboutIn reads the names of an app.
func (n *Info) aboutIn(tx platform.Tx, guid string) (logs.About, error) {
	about := logs.About{Tags: maps.Clone(n.server), Processes: map[string]string{}}
	app, err := tx.Apps().Get(guid)
	if err != nil {
		return about, err
	}
	space, err := tx.Spaces().Get(app.SpaceGUID)
	if err != nil {
		return about, err
	}
	org, err := tx.Organizations().Get(space.OrgGUID)
	if err != nil {
		return about, err
	}
	processes, _, err := tx.Processes().List(platform.Where("app_guid", guid))
	if err != nil {
		return about, err
	}
	for _, p := range processes { // the oldest first
		about.Processes[strings.ToUpper(p.Type)] = p.GUID
	}
	if len(processes) > len(about.Processes) {
		if about.Replaced, err = replaced(tx, guid, about.Processes); err != nil {
			return about, err
		}
	}
	maps.Copy(about.Tags, map[string]string{
		"app_id": app.GUID, "app_name": app.Name, "space_id": space.GUID, "space_name": space.Name,
		"organization_id": org.GUID, "organization_name": org.Name,
	})
	return about, nil
}

// replaced returns the processes of an app that are not the newest of their type, by
// their instances.
func replaced(tx platform.Tx, app string, newest map[string]string) (map[string]string, error) {
	instances, _, err := tx.Instances().List(platform.Where("app_guid", app))
	out := map[string]string{}
	for _, one := range instances {
		out[one.GUID] = one.ProcessGUID
	}
	for _, guid := range newest {
		maps.DeleteFunc(out, func(_, process string) bool { return process == guid })
	}
	return out, err
}

// MayRead implements logs.Access: a caller who can see an app can read its log.
func (n *Info) MayRead(ctx context.Context, claims *token.Claims, app string) (bool, error) {
	return actions.SeesApp(ctx, n.store, platform.Caller{GUID: claims.CallerID(),
		Authority: platform.AuthorityOf(claims.Scope)}, app)
}

// Gauges implements logs.Access. The names of the metrics are Diego's.
func (n *Info) Gauges(ctx context.Context, apps []string) ([]logs.Gauge, error) {
	var of platform.Query
	if apps != nil {
		of = of.And(platform.InStrings("app_guid", apps))
	}
	var instances []*platform.Instance
	processes := map[string]*platform.Process{}
	err := n.store.View(ctx, func(tx platform.Tx) (err error) {
		if instances, _, err = tx.Instances().List(of.And(platform.In("state", platform.InstanceRunning))); err != nil {
			return err
		}
		all, _, err := tx.Processes().List(of)
		for _, p := range all {
			processes[p.GUID] = p
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	guids := make([]string, len(instances))
	for i, one := range instances {
		guids[i] = one.GUID
	}
	usage := n.usage(ctx, guids...)
	out := make([]logs.Gauge, 0, len(instances))
	for _, one := range instances {
		u, used := usage[one.GUID]
		if p := processes[one.ProcessGUID]; used && p != nil {
			out = append(out, gaugeOf(one, p, u))
		}
	}
	return out, nil
}

func gaugeOf(one *platform.Instance, p *platform.Process, u usage.Usage) logs.Gauge {
	const mb = 1 << 20
	bytes := func(n int64) logs.Metric { return logs.Metric{Unit: "bytes", Value: float64(n)} }
	return logs.Gauge{
		App: one.AppGUID, Process: strings.ToUpper(p.Type), ProcessGUID: p.GUID, Instance: one.GUID, Index: one.Index,
		Time: u.Time,
		Metrics: map[string]logs.Metric{
			"cpu": {Unit: "percentage", Value: 100 * u.CPU}, "cpu_entitlement": {Unit: "percentage", Value: 100 * u.CPU},
			"memory": bytes(u.Memory), "memory_quota": bytes(int64(p.MemoryMB) * mb),
			"disk": bytes(u.Disk), "disk_quota": bytes(int64(p.DiskMB) * mb),
			"log_rate": {Unit: "B/s", Value: float64(u.LogRate)}, "log_rate_limit": {Unit: "B/s", Value: float64(p.LogRate)},
		},
	}
}
