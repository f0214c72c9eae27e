package repeats

import (
	"hash/maphash"
	"sync"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// A Filter finds repeated members of a single audience, which is read in pages
// that rarely repeat members. A Bloom filter, with 4 bytes per member, tells
// which members are certainly new. The others are searched among the send's
// messages, the latest first, which quickly finds repetitions at page borders.
// The filter has one false positive in a million, which costs a search but
// excludes no one.
type Filter struct {
	channelOf func(lane int) notify.ChannelID

	members int // number of members of the send in the filter
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
	room int // remaining capacity
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

func (f *Filter) has(k bloomKey) bool {
	for _, p := range f.parts {
		if p.has(k) {
			return true
		}
	}
	return false
}

func (f *Filter) set(k bloomKey) {
	last := len(f.parts) - 1
	if last < 0 || f.parts[last].room == 0 {
		// Each part is as large as all previous ones together, up to a limit.
		room := min(firstBloom<<len(f.parts), largeBloom)
		f.parts = append(f.parts, &bloom{bits: make([]uint64, (room*bloomBits+63)/64), room: room})
		last++
	}
	f.parts[last].set(k)
	f.members++
}

// Add adds the members that are stored after the first n.
func (f *Filter) Add(n int, members []notify.Recipient) {
	if f.members != n {
		return // another process stored more: load reads the rest
	}
	for _, r := range members {
		f.set(keyOf(MemberOf(r)))
	}
}

// LeaveOut returns the recipients in more that are not among the first n
// members.
func (f *Filter) LeaveOut(tx *db.Tx, send int64, n int, more []notify.Recipient) ([]notify.Recipient, error) {
	if err := f.load(tx, send, n); err != nil {
		return nil, err
	}
	maybe := map[string]bool{} // whether it was found
	for _, r := range more {
		if m := MemberOf(r); f.has(keyOf(m)) {
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
		if !maybe[MemberOf(r)] {
			fresh = append(fresh, r)
		}
	}
	return fresh, nil
}

// load reads members that another process stored, or this one before a restart.
func (f *Filter) load(tx *db.Tx, send int64, n int) error {
	if f.members > n { // the filter does not match the stored members
		*f = Filter{channelOf: f.channelOf}
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

func (f *Filter) each(tx *db.Tx, send int64, where string, from, to int, visit func(member string) bool) error {
	rows, err := tx.Query("SELECT user_id, email, lane FROM notify_messages WHERE "+where,
		notify.MessageNumber(send, from), notify.MessageNumber(send, to))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r notify.Recipient
		var lane int
		if err := rows.Scan(&r.UserID, &r.Email, &lane); err != nil {
			return err
		}
		r.Channel = f.channelOf(lane)
		if !visit(MemberOf(r)) {
			break
		}
	}
	return rows.Err()
}

// Filters holds the filters of sends that are being expanded. A goroutine that
// extends a send takes its filter and puts it back.
type Filters struct {
	// ChannelOf returns the channel of messages with a number in the column lane.
	ChannelOf func(lane int) notify.ChannelID

	mu    sync.Mutex
	known map[int64]*Filter
}

const manyFilters = 4

// Take returns the filter of a send, and forgets it.
func (f *Filters) Take(send int64) *Filter {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.known[send]; known != nil {
		delete(f.known, send)
		return known
	}
	return &Filter{channelOf: f.ChannelOf}
}

// Put stores the filter of a send.
func (f *Filters) Put(send int64, known *Filter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil {
		f.known = map[int64]*Filter{}
	}
	for other := range f.known {
		if len(f.known) < manyFilters {
			break
		}
		delete(f.known, other)
	}
	f.known[send] = known
}
