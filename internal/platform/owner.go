package platform

import (
	"context"
	"slices"
	"sync/atomic"
)

// Owner divides the apps among the servers of one database: each app is in one of 64
// shards, and one server at a time works on a shard.
type Owner interface {
	// Shard returns the shard of an app, as one bit of a set.
	Shard(appGUID string) uint64
	// Shards returns the set of shards that this server has from the start: all, if there
	// is no other server.
	Shards() uint64
	// Owns reports whether this server works on an app, for certain.
	Owns(appGUID string) bool
	// Fence returns a context whose transactions fail when another server works on the app.
	Fence(ctx context.Context, appGUID string) context.Context
}

// Share is the set of shards that a part of the server works on. A part gains shards,
// loses them again, and must not work on an app between.
type Share struct {
	owner Owner // nil if there is no other server
	mine  atomic.Uint64
}

// NewShare returns the shards that owner has from the start. A nil owner has all.
func NewShare(owner Owner) *Share {
	s := &Share{owner: owner}
	if owner != nil {
		s.mine.Store(owner.Shards())
	}
	return s
}

// Has reports whether an app is in the shards of the part. Another server may have taken
// it over since.
func (s *Share) Has(appGUID string) bool {
	return s.owner == nil || s.mine.Load()&s.owner.Shard(appGUID) != 0
}

// In reports whether an app is in one of some shards.
func (s *Share) In(shards uint64, appGUID string) bool {
	return s.owner == nil || shards&s.owner.Shard(appGUID) != 0
}

// Whole reports whether the part works on all apps.
func (s *Share) Whole() bool { return s.owner == nil || s.mine.Load() == ^uint64(0) }

// Gain adds shards.
func (s *Share) Gain(shards uint64) { s.mine.Or(shards) }

// Lose removes shards.
func (s *Share) Lose(shards uint64) { s.mine.And(^shards) }

// Works reports whether the part works on an app, and no other server does for certain.
func (s *Share) Works(appGUID string) bool {
	return s.owner == nil || s.Has(appGUID) && s.owner.Owns(appGUID)
}

// Fence is like Owner.Fence.
func (s *Share) Fence(ctx context.Context, appGUID string) context.Context {
	if s.owner == nil {
		return ctx
	}
	return s.owner.Fence(ctx, appGUID)
}

// Work is what a part does for one app, until it ends or the app's shard is lost.
type Work struct {
	App    string
	cancel context.CancelFunc
	over   chan struct{} // closed when it does nothing any more
}

// Begin returns the context of a work on an app, whose transactions are fenced. End must be
// called when it is over.
func (s *Share) Begin(ctx context.Context, appGUID string) (context.Context, *Work) {
	w := &Work{App: appGUID, over: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(s.Fence(ctx, appGUID))
	return ctx, w
}

// Cancel ends the context of the work.
func (w *Work) Cancel() { w.cancel() }

// End says that the work is over.
func (w *Work) End() {
	w.cancel()
	close(w.over)
}

// Wait returns when the work is over.
func (w *Work) Wait() { <-w.over }

// Lost removes shards, cancels the work on their apps, and waits until it is over. Active
// returns all work in progress; it is called when Has reports that the shards are gone.
func (s *Share) Lost(shards uint64, active func() []*Work) {
	s.Lose(shards)
	all := active()
	all = slices.DeleteFunc(all, func(w *Work) bool { return !s.In(shards, w.App) })
	for _, w := range all {
		w.Cancel()
	}
	for _, w := range all {
		w.Wait()
	}
}
