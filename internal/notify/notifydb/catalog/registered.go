package catalog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// registered looks up clients, kinds and templates, which every send needs.
//
// If this process is the only writer, it caches them: every write except those
// of the queue clears the cache. Otherwise, concurrent calls share a read that
// begins after the last of them arrived: they see what they would have seen
// alone, and the database is queried a few hundred times per second instead of
// thousands.
type registered struct {
	mu      sync.Mutex
	clients map[notify.KindRef]notify.Client
	kinds   map[notify.KindRef]notify.Kind
	// templates have their id as KindID.
	templates map[notify.KindRef]notify.Template
	// writes counts writes that began and ended. Results read while it changed,
	// or during a write, are not cached.
	writes, underWay int

	// wanted is what the next shared read looks up.
	wanted  *sharedRead
	reading bool
}

// manyRegistered limits the caches of clients and of kinds, manyTemplates that of templates, which
// are larger.
const (
	manyRegistered = 1000
	manyTemplates  = 50
)

// forget is called before a write; the function it returns is called after it.
func (r *registered) forget() (after func()) {
	change := func(underWay int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writes++
		r.underWay += underWay
		clear(r.clients)
		clear(r.kinds)
		clear(r.templates)
	}
	change(1)
	return func() { change(-1) }
}

// known is like query.View with a cache. Missing entries are not cached, because they
// are rare.
func known[T any](ctx context.Context, s *Catalog, key notify.KindRef, in *map[notify.KindRef]T, limit int,
	read func(*db.Tx) (T, error)) (T, error) {
	r := &s.registered
	r.mu.Lock()
	have, ok := (*in)[key]
	writes := r.writes
	r.mu.Unlock()
	if ok {
		return have, nil
	}
	found, err := query.View(ctx, s.db, read)
	if err != nil {
		return found, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes == writes && r.underWay == 0 {
		if *in == nil || len(*in) >= limit {
			*in = map[notify.KindRef]T{}
		}
		(*in)[key] = found
	}
	return found, nil
}

// sharedRead looks up clients, kinds and templates for several calls. Calls add
// to it until it begins. What does not exist is empty.
type sharedRead struct {
	clients   map[string]notify.Client
	kinds     map[notify.KindRef]notify.Kind
	templates map[string]notify.Template
	err       error
	done      chan struct{}
}

// join joins or starts a shared read, and waits for it. want adds the keys.
func (s *Catalog) join(ctx context.Context, want func(*sharedRead)) (*sharedRead, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	r := &s.registered
	r.mu.Lock()
	if r.wanted == nil {
		r.wanted = &sharedRead{clients: map[string]notify.Client{}, kinds: map[notify.KindRef]notify.Kind{},
			templates: map[string]notify.Template{}, done: make(chan struct{})}
	}
	read := r.wanted
	want(read)
	if !r.reading {
		r.reading = true
		lasting := context.WithoutCancel(ctx)
		background.Go("notification reads", func() { s.readShared(lasting) })
	}
	r.mu.Unlock()
	select {
	case <-read.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return read, read.err
}

// readTime limits a shared read, independently of its callers.
const readTime = 30 * time.Second

// readShared reads until no call is waiting.
func (s *Catalog) readShared(ctx context.Context) {
	r := &s.registered
	for {
		r.mu.Lock()
		read := r.wanted
		r.wanted = nil
		r.reading = read != nil
		r.mu.Unlock()
		if read == nil {
			return
		}
		read.err = background.Do("notification reads", func() error { return s.lookup(ctx, read) })
		close(read.done)
	}
}

func (s *Catalog) lookup(ctx context.Context, read *sharedRead) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readTime, errors.New("the database took too long to answer; try again"))
	defer cancel()
	clients, templates := slices.Collect(maps.Keys(read.clients)), slices.Collect(maps.Keys(read.templates))
	var kinds, owners []string
	for ref := range read.kinds {
		kinds, owners = append(kinds, ref.KindID), append(owners, ref.ClientID)
	}
	// The maps are replaced and not added to, because this may run again.
	return query.Meaning(s.db.Read(ctx, func(tx *db.Tx) (err error) {
		in := func(column string) string { return query.TextsIn(tx.Dialect(), column) }
		if read.clients, err = keyed(tx, scanClient, func(c notify.Client) string { return c.ID },
			"SELECT id, description, template_id FROM notify_clients WHERE "+in("id"), clients); err != nil {
			return err
		}
		if read.kinds, err = keyed(tx, ScanKind, func(k notify.Kind) notify.KindRef {
			return notify.KindRef{ClientID: k.ClientID, KindID: k.ID}
		}, "SELECT "+kindColumns+" FROM notify_kinds WHERE "+in("client_id")+" AND "+in("id"), owners, kinds); err != nil {
			return err
		}
		if read.templates, err = keyed(tx, scanTemplate, func(t notify.Template) string { return t.ID },
			"SELECT "+templateColumns+" FROM notify_templates WHERE "+in("id"), templates); err != nil {
			return err
		}
		for id, t := range read.templates {
			if read.templates[id], err = withPartials(tx, t); err != nil {
				return err
			}
		}
		return nil
	}))
}

// keyed is like listed, and returns the rows by their keys. Without texts it runs nothing.
func keyed[K comparable, T any](tx *db.Tx, scan func(db.Scanner) (T, error), key func(T) K, statement string,
	lists ...[]string) (map[K]T, error) {
	found := map[K]T{}
	if len(lists[0]) == 0 {
		return found, nil
	}
	rows, err := query.Listed(tx, scan, statement, lists...)
	for _, row := range rows {
		found[key(row)] = row
	}
	return found, err
}
