package notifydb

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	"ingot/internal/base/db"
	"ingot/internal/notify/notifydb/query"
)

// receipt records that a client sent a user a notification.
type receipt struct{ user, client string }

var newReceipts = query.NewInsertion("notify_receipts", "user_id, client_id",
	" ON CONFLICT (user_id, client_id) DO NOTHING")

// storeReceipts inserts receipts in order, so that adjacent rows are written
// together and transactions do not deadlock.
func storeReceipts(tx *db.Tx, all []receipt) error {
	slices.SortFunc(all, func(a, b receipt) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.client, b.client))
	})
	all = slices.Compact(all)
	args := make([]any, 0, 2*len(all))
	for _, r := range all {
		args = append(args, r.user, r.client)
	}
	return newReceipts.All(tx, args)
}

// seen is a cache of stored receipts, by two hashes of each: 16 bytes,
// practically without collisions. It is a table with one slot per hash, which
// holds the latest receipt: so it takes a megabyte, and recurring recipients
// are found there.
type seen struct {
	mu    sync.Mutex
	slots []seenKey
}

type seenKey struct{ a, b uint64 }

const seenReceipts = 1 << 16

var seenSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (r receipt) key() seenKey {
	return seenKey{maphash.Comparable(seenSeeds[0], r), maphash.Comparable(seenSeeds[1], r)}
}

// slot returns the slot of a receipt.
func (s *seen) slot(k seenKey) *seenKey { return &s.slots[k.a%seenReceipts] }

// missing returns the receipts that may not be stored yet.
func (s *seen) missing(all []receipt) []receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil {
		return all
	}
	return slices.DeleteFunc(all, func(r receipt) bool {
		k := r.key()
		return *s.slot(k) == k
	})
}

func (s *seen) add(all []receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots == nil && len(all) > 0 {
		s.slots = make([]seenKey, seenReceipts)
	}
	for _, r := range all {
		k := r.key()
		*s.slot(k) = k
	}
}
