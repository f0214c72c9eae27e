package controller

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/run/controller/routing"
)

// Backends returns the running and ready instances of a process, by index. The result comes
// from memory and must not be changed.
func (c *Controller) Backends(appGUID, processType string) []routing.Backend {
	c.routing.RLock()
	defer c.routing.RUnlock()
	return c.backends[appGUID][processType]
}

// together merges both; backends in now take precedence.
func together(before, now map[string][]routing.Backend) map[string][]routing.Backend {
	all := maps.Clone(now)
	for kind, old := range before {
		all[kind] = slices.Clone(now[kind])
		for _, b := range old {
			if !slices.ContainsFunc(now[kind], func(n routing.Backend) bool { return n.InstanceGUID == b.InstanceGUID }) {
				all[kind] = append(all[kind], b)
			}
		}
	}
	return all
}

// loads combines calls of LoadBackends. An app with many instances that start is announced as
// often, and each read has all of its rows.
type loads struct {
	reading sync.Mutex // held by the call that reads, so that an older result never comes last
	mu      sync.Mutex
	next    *load // that further calls join; nil if none waits
}

// load is one read for several calls. Its result is guarded by loads.reading.
type load struct {
	all  bool
	apps map[string]bool
	done bool
	err  error
}

// join returns the read that begins next, for these apps too.
func (l *loads) join(appGUIDs []string) *load {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = &load{apps: map[string]bool{}}
	}
	l.next.all = l.next.all || len(appGUIDs) == 0
	for _, guid := range appGUIDs {
		l.next.apps[guid] = true
	}
	return l.next
}

// begin closes a read for further calls and returns its apps, none for all.
func (l *loads) begin(this *load) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = nil
	if this.all {
		return nil
	}
	return slices.Sorted(maps.Keys(this.apps))
}

// LoadBackends reads the backends of apps that other servers work on from the rows of their
// instances, or of all such apps if none is named. When it returns, the sink was notified.
func (c *Controller) LoadBackends(ctx context.Context, appGUIDs ...string) error {
	if c.share.Whole() {
		return nil
	}
	this := c.loads.join(appGUIDs)
	c.loads.reading.Lock()
	defer c.loads.reading.Unlock()
	if !this.done {
		// Others wait for it, too: it does not end with this call.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		this.err = c.loadBackends(ctx, c.loads.begin(this))
		this.done = true
	}
	return this.err
}

// loadTimeout limits one read of backends.
const loadTimeout = 30 * time.Second

func (c *Controller) loadBackends(ctx context.Context, appGUIDs []string) error {
	query := platform.Query{}
	if len(appGUIDs) > 0 {
		query.Where = []platform.Cond{platform.InStrings("app_guid", appGUIDs)}
	}
	var rows []*platform.Instance
	types := map[string]string{}
	err := c.Store.View(ctx, func(tx platform.Tx) (err error) {
		if rows, _, err = tx.Instances().List(query); err != nil {
			return err
		}
		processes, _, err := tx.Processes().List(query)
		for _, process := range processes {
			types[process.GUID] = process.Type
		}
		return err
	})
	if err != nil {
		return err
	}
	now := map[string]map[string][]routing.Backend{}
	for _, row := range rows {
		kind := types[row.ProcessGUID]
		if row.State != platform.InstanceRunning || !row.Ready || kind == "" {
			continue
		}
		if now[row.AppGUID] == nil {
			now[row.AppGUID] = map[string][]routing.Backend{}
		}
		now[row.AppGUID][kind] = append(now[row.AppGUID][kind], routing.Backend{InstanceGUID: row.GUID,
			ProcessGUID: row.ProcessGUID, Index: row.Index, Ports: row.Ports, Ready: true})
	}
	c.setBackends(appGUIDs, now)
	return nil
}

// setBackends sets the backends of apps, or of all if none is named, except those that this
// server works on.
func (c *Controller) setBackends(appGUIDs []string, now map[string]map[string][]routing.Backend) {
	var changed []string
	c.routing.Lock()
	if len(appGUIDs) == 0 {
		appGUIDs = append(slices.Collect(maps.Keys(now)), slices.Collect(maps.Keys(c.backends))...)
	}
	for _, app := range appGUIDs {
		for _, all := range now[app] {
			slices.SortFunc(all, byIndex)
		}
		if c.share.Has(app) || reflect.DeepEqual(c.backends[app], now[app]) {
			continue
		}
		if c.backends[app] = now[app]; now[app] == nil {
			delete(c.backends, app)
		}
		changed = append(changed, app)
	}
	c.routing.Unlock()
	if c.sink != nil {
		for _, app := range changed {
			c.sink.AppChanged(app)
		}
	}
}

func byIndex(x, y routing.Backend) int {
	return cmp.Or(cmp.Compare(x.Index, y.Index), cmp.Compare(x.InstanceGUID, y.InstanceGUID))
}
