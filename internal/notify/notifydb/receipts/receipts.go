package receipts

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify/notifydb/query"
)

// Receipt records that a client sent a user a notification.
type Receipt struct{ User, Client string }

var newReceipts = query.NewInsertion("notify_receipts", "user_id, client_id",
	" ON CONFLICT (user_id, client_id) DO NOTHING")

// Store inserts receipts in order, so that adjacent rows are written
// together and transactions do not deadlock.
func Store(tx *db.Tx, all []Receipt) error {
	slices.SortFunc(all, func(a, b Receipt) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Client, b.Client))
	})
	all = slices.Compact(all)
	args := make([]any, 0, 2*len(all))
	for _, r := range all {
		args = append(args, r.User, r.Client)
	}
	return newReceipts.All(tx, args)
}

// Seen is a cache of stored receipts, by two hashes of each: 16 bytes,
// practically without collisions. It is a table with one slot per hash, which
// holds the latest receipt: so it takes a megabyte, and recurring recipients
// are found there. Another server may erase what it holds, so it is emptied after a short time.
type Seen struct {
	mu    sync.Mutex
	slots []seenKey
	until time.Time // by the clock of the callers, as the others
	// forgot is when the table was emptied because receipts were deleted.
	forgot time.Time
}

// seenFor is how long a server trusts that a receipt is stored.
const seenFor = time.Minute

type seenKey struct{ a, b uint64 }

const seenReceipts = 1 << 16

var seenSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (r Receipt) key() seenKey {
	return seenKey{maphash.Comparable(seenSeeds[0], r), maphash.Comparable(seenSeeds[1], r)}
}

// slot returns the slot of a receipt.
func (s *Seen) slot(k seenKey) *seenKey { return &s.slots[k.a%seenReceipts] }

// Missing returns the receipts that may not be stored now.
func (s *Seen) Missing(all []Receipt, now time.Time) []Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil || !now.Before(s.until) {
		return all
	}
	return slices.DeleteFunc(all, func(r Receipt) bool {
		k := r.key()
		return *s.slot(k) == k
	})
}

// Add adds receipts that were stored after a time.
func (s *Seen) Add(all []Receipt, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all) == 0 || since.Before(s.forgot) {
		return // they may have been erased since
	}
	if s.slots == nil {
		s.slots = make([]seenKey, seenReceipts)
	}
	if !since.Before(s.until) {
		clear(s.slots)
		s.until = since.Add(seenFor)
	}
	for _, r := range all {
		k := r.key()
		*s.slot(k) = k
	}
}

// Forget empties the table after receipts were deleted.
func (s *Seen) Forget(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots, s.forgot = nil, now
}
