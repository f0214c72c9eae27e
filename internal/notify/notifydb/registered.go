package notifydb

import (
	"context"
	"errors"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// registered looks up clients and kinds, which every send needs.
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
	// writes counts writes that began and ended. Results read while it changed,
	// or during a write, are not cached.
	writes, underWay int

	// wanted is what the next shared read looks up.
	wanted  *sharedRead
	reading bool
}

// manyRegistered limits the size of each cache.
const manyRegistered = 1000

// forget is called before a write; the function it returns is called after it.
func (r *registered) forget() (after func()) {
	change := func(underWay int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writes++
		r.underWay += underWay
		clear(r.clients)
		clear(r.kinds)
	}
	change(1)
	return func() { change(-1) }
}

// known is like view with a cache. Missing entries are not cached, because they
// are rare.
func known[T any](ctx context.Context, s *Store, key notify.KindRef, in *map[notify.KindRef]T,
	read func(*db.Tx) (T, error)) (T, error) {
	r := &s.registered
	r.mu.Lock()
	have, ok := (*in)[key]
	writes := r.writes
	r.mu.Unlock()
	if ok {
		return have, nil
	}
	found, err := view(ctx, s, read)
	if err != nil {
		return found, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writes == writes && r.underWay == 0 {
		if *in == nil || len(*in) >= manyRegistered {
			*in = map[notify.KindRef]T{}
		}
		(*in)[key] = found
	}
	return found, nil
}

// sharedRead looks up clients and kinds for several calls. Calls add to it
// until it begins.
type sharedRead struct {
	clients map[string]*notify.Client // nil means not found
	kinds   map[notify.KindRef]*notify.Kind
	err     error
	done    chan struct{}
}

// sharedLookup joins or starts a shared read. want adds the key, get returns
// the result.
func sharedLookup[T any](ctx context.Context, s *Store, want func(*sharedRead), get func(*sharedRead) *T) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, context.Cause(ctx)
	}
	r := &s.registered
	r.mu.Lock()
	if r.wanted == nil {
		r.wanted = &sharedRead{clients: map[string]*notify.Client{}, kinds: map[notify.KindRef]*notify.Kind{},
			done: make(chan struct{})}
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
		return none, context.Cause(ctx)
	}
	if read.err != nil {
		return none, read.err
	}
	if found := get(read); found != nil {
		return *found, nil
	}
	return none, notify.ErrNotFound
}

// readTime limits a shared read, independently of its callers.
const readTime = 30 * time.Second

// readShared reads until no call is waiting.
func (s *Store) readShared(ctx context.Context) {
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

func (s *Store) lookup(ctx context.Context, read *sharedRead) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readTime, errors.New("the database took too long to answer; try again"))
	defer cancel()
	clients, kinds := make([]string, 0, len(read.clients)), make([]string, 0, len(read.kinds))
	owners := make([]string, 0, len(read.kinds))
	for id := range read.clients {
		clients = append(clients, id)
	}
	for ref := range read.kinds {
		kinds, owners = append(kinds, ref.KindID), append(owners, ref.ClientID)
	}
	return meaning(s.db.View(ctx, func(tx *db.Tx) error {
		if len(clients) > 0 {
			all, err := listed(tx, scanClient, "SELECT id, description, template_id FROM notify_clients WHERE "+
				textsIn(tx.Dialect(), "id"), clients)
			if err != nil {
				return err
			}
			clear(read.clients) // this may run again
			for i := range all {
				read.clients[all[i].ID] = &all[i]
			}
		}
		if len(kinds) == 0 {
			return nil
		}
		all, err := listed(tx, scanKind, "SELECT "+kindColumns+" FROM notify_kinds WHERE "+
			textsIn(tx.Dialect(), "client_id")+" AND "+textsIn(tx.Dialect(), "id"), owners, kinds)
		if err != nil {
			return err
		}
		clear(read.kinds)
		for i := range all {
			read.kinds[notify.KindRef{ClientID: all[i].ClientID, KindID: all[i].ID}] = &all[i]
		}
		return nil
	}))
}

// listed runs a query whose arguments are lists of texts.
func listed[T any](tx *db.Tx, scan func(db.Scanner) (T, error), query string, lists ...[]string) ([]T, error) {
	args := make([]any, 0, len(lists))
	for _, texts := range lists {
		list, err := textList(texts)
		if err != nil {
			return nil, err
		}
		args = append(args, list)
	}
	return db.All(tx, scan, query, args...)
}
