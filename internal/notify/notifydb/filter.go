package notifydb

import (
	"hash/maphash"
	"sync"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// A single audience is read in pages that hardly ever repeat anybody, yet may.
// So a Bloom filter says who is certainly new, in 4 bytes a member. Whom it
// takes for known is looked for among the send's messages, the latest first,
// which finds repetitions at the border of two pages at once. The filter errs
// once in a million, and then the search costs time but nobody is left out.
type filter struct {
	members int // of the send that are in it
	parts   []*bloom
}

const (
	bloomHashes = 20
	bloomBits   = 29 // for a member: with 20 hashes one error in a million
	firstBloom  = 8 << 10
	largeBloom  = 1 << 20
)

type bloom struct {
	bits []uint64
	room int // for how many more
}

var bloomSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

type bloomKey struct{ a, b uint64 }

func keyOf(member string) bloomKey {
	return bloomKey{maphash.String(bloomSeeds[0], member), maphash.String(bloomSeeds[1], member) | 1}
}

func (b *bloom) has(k bloomKey) bool {
	size := uint64(len(b.bits)) * 64
	for range bloomHashes {
		at := k.a % size
		if b.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
		k.a += k.b
	}
	return true
}

func (b *bloom) set(k bloomKey) {
	size := uint64(len(b.bits)) * 64
	for range bloomHashes {
		at := k.a % size
		b.bits[at/64] |= 1 << (at % 64)
		k.a += k.b
	}
	b.room--
}

func (f *filter) has(k bloomKey) bool {
	for _, p := range f.parts {
		if p.has(k) {
			return true
		}
	}
	return false
}

func (f *filter) set(k bloomKey) {
	last := len(f.parts) - 1
	if last < 0 || f.parts[last].room == 0 {
		// Each part is as large as all before it, up to a bound.
		room := min(firstBloom<<len(f.parts), largeBloom)
		f.parts = append(f.parts, &bloom{bits: make([]uint64, (room*bloomBits+63)/64), room: room})
		last++
	}
	f.parts[last].set(k)
	f.members++
}

// add puts the members in that are stored after the first n.
func (f *filter) add(n int, members []notify.Recipient) {
	if f.members != n {
		return // somebody else stored more: the rest is read when it is needed
	}
	for _, r := range members {
		f.set(keyOf(memberOf(r)))
	}
}

// leaveOut returns those of more that are not among the first n members.
func (f *filter) leaveOut(tx *db.Tx, send int64, n int, more []notify.Recipient) ([]notify.Recipient, error) {
	if err := f.load(tx, send, n); err != nil {
		return nil, err
	}
	maybe := map[string]bool{} // whether it was found
	for _, r := range more {
		if m := memberOf(r); f.has(keyOf(m)) {
			maybe[m] = false
		}
	}
	if len(maybe) == 0 {
		return more, nil
	}
	missing := len(maybe)
	err := f.each(tx, send, "number >= ? AND number < ? ORDER BY number DESC", 0, n, func(m string) bool {
		if found, asked := maybe[m]; asked && !found {
			maybe[m] = true
			missing--
		}
		return missing > 0
	})
	if err != nil {
		return nil, err
	}
	fresh := make([]notify.Recipient, 0, len(more))
	for _, r := range more {
		if !maybe[memberOf(r)] {
			fresh = append(fresh, r)
		}
	}
	return fresh, nil
}

// load reads members that another process stored, or this one before it was
// started again.
func (f *filter) load(tx *db.Tx, send int64, n int) error {
	if f.members > n { // what was added is not what is stored
		*f = filter{}
	}
	if f.members == n {
		return nil
	}
	// Messages that were purged already leave gaps, so they are not counted.
	err := f.each(tx, send, "number >= ? AND number < ? ORDER BY number", f.members, n, func(m string) bool {
		f.set(keyOf(m))
		return true
	})
	f.members = n
	return err
}

func (f *filter) each(tx *db.Tx, send int64, where string, from, to int, visit func(member string) bool) error {
	rows, err := tx.Query("SELECT user_id, email FROM notify_messages WHERE "+where,
		notify.MessageNumber(send, from), notify.MessageNumber(send, to))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r notify.Recipient
		if err := rows.Scan(&r.UserID, &r.Email); err != nil {
			return err
		}
		if !visit(memberOf(r)) {
			break
		}
	}
	return rows.Err()
}

// filters are those of sends that are being expanded. Who extends a send takes
// its filter away and puts it back.
type filters struct {
	mu    sync.Mutex
	known map[int64]*filter
}

const manyFilters = 4

func (f *filters) take(send int64) *filter {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.known[send]; known != nil {
		delete(f.known, send)
		return known
	}
	return &filter{}
}

func (f *filters) put(send int64, known *filter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[int64]*filter{}
	}
	for other := range f.known {
		if len(f.known) < manyFilters {
			break
		}
		delete(f.known, other)
	}
	f.known[send] = known
}
