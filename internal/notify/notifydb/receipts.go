package notifydb

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	"ingot/internal/base/db"
)

// receipt tells that a client sent a user something.
type receipt struct{ user, client string }

var newReceipts = newInsertion("notify_receipts", "user_id, client_id", " ON CONFLICT (user_id, client_id) DO NOTHING")

// storeReceipts stores them in order: so rows close to each other are written
// together, and no two transactions wait for each other in a circle.
func storeReceipts(tx *db.Tx, all []receipt) error {
	slices.SortFunc(all, func(a, b receipt) int {
		return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.client, b.client))
	})
	all = slices.Compact(all)
	args := make([]any, 0, 2*len(all))
	for _, r := range all {
		args = append(args, r.user, r.client)
	}
	return newReceipts.all(tx, args)
}

// seen is receipts that are known to be stored, by two hashes of each: 16 bytes
// of which no two are ever the same by chance. Each has one place, where the
// latest stays: so it takes a megabyte whatever comes, and those whom a client
// writes to again and again are found there.
type seen struct {
	mu     sync.Mutex
	places []seenKey
}

type seenKey struct{ a, b uint64 }

const seenReceipts = 1 << 16

var seenSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (r receipt) key() seenKey {
	return seenKey{maphash.Comparable(seenSeeds[0], r), maphash.Comparable(seenSeeds[1], r)}
}

// place is where a receipt is, if it is.
func (s *seen) place(k seenKey) *seenKey { return &s.places[k.a%seenReceipts] }

// missing are those that may not be stored yet.
func (s *seen) missing(all []receipt) []receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == nil {
		return all
	}
	return slices.DeleteFunc(all, func(r receipt) bool {
		k := r.key()
		return *s.place(k) == k
	})
}

func (s *seen) add(all []receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == nil && len(all) > 0 {
		s.places = make([]seenKey, seenReceipts)
	}
	for _, r := range all {
		k := r.key()
		*s.place(k) = k
	}
}
