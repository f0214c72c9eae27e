package notifydb

import (
	"cmp"
	"hash/maphash"
	"slices"
	"sync"

	"ingot/internal/db"
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
// of which no two are ever the same by chance. When it is full, half is
// forgotten.
type seen struct {
	mu            sync.Mutex
	recent, older map[seenKey]struct{}
}

type seenKey struct{ a, b uint64 }

// seenReceipts bounds each half; both take about 4 MB when full.
const seenReceipts = 40_000

var seenSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func (r receipt) key() seenKey {
	return seenKey{maphash.Comparable(seenSeeds[0], r), maphash.Comparable(seenSeeds[1], r)}
}

// missing are those that may not be stored yet.
func (s *seen) missing(all []receipt) []receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(all, func(r receipt) bool {
		k := r.key()
		if _, ok := s.recent[k]; ok {
			return true
		}
		_, ok := s.older[k]
		return ok
	})
}

func (s *seen) add(all []receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		if s.recent == nil || len(s.recent) >= seenReceipts {
			s.recent, s.older = make(map[seenKey]struct{}), s.recent
		}
		s.recent[r.key()] = struct{}{}
	}
}
