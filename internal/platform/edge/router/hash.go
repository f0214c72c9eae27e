package router

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options of a route.
const (
	optionBalancing = "loadbalancing"
	// optionProxyProtocol is the version of the PROXY protocol for the backends of a TCP
	// route: v1, v2, or empty for none.
	optionProxyProtocol = "proxy_protocol"
	optionHeader        = "hash_header"
	optionBalance       = "hash_balance"

	balanceLeast = "least-connection"
	balanceHash  = "hash"
)

// Sizes of the tables of hashed routes: primes, several times larger than the number of
// backends.
const (
	smallHashTable = 1801
	largeHashTable = 16381
	// manyBackends is the number of backends from which the table is large.
	manyBackends = 450
)

// hashing sends requests with the same value of a header to the same backend. Its
// table is that of Maglev, as in gorouter: nearly equal shares, and when a backend
// comes or goes few values move that did not have to.
type hashing struct {
	header string // canonical
	// factor bounds how many times the average of requests under way a backend
	// may have before the next one in the table is chosen; 0 means no bound.
	factor float64

	once  sync.Once // built for the first request, because most routes have few
	table []uint16  // by slot, the index of a backend
}

// hashingOf returns the hashing of a route, or nil if it uses another algorithm.
func hashingOf(route Route) *hashing {
	header := textproto.CanonicalMIMEHeaderKey(route.Options[optionHeader])
	if route.Options[optionBalancing] != balanceHash || header == "" {
		return nil
	}
	h := &hashing{header: header}
	h.factor, _ = strconv.ParseFloat(route.Options[optionBalance], 64)
	return h
}

// keyOf returns the value that a request is hashed by; "" means that it has none and any
// backend may serve it.
func (h *hashing) keyOf(r *http.Request) string {
	switch {
	case h == nil:
		return ""
	case h.header == "Host":
		return r.Host
	}
	return r.Header.Get(h.header)
}

// keyIn is keyOf for a plain request, given its head.
func (h *hashing) keyIn(head string) string {
	_, rest, _ := strings.Cut(head, "\r\n")
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\r\n")
		if name, value, ok := strings.Cut(line, ":"); ok && len(name) == len(h.header) && strings.EqualFold(name, h.header) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// next chooses the backend of a key: that of its slot, or the next in the table that was
// not tried, did not fail recently and is not too busy. Failing that it takes a busy one,
// and finally one that failed.
func (h *hashing) next(p *pool, key string, tried []*endpoint, now time.Time) *endpoint {
	h.once.Do(func() { h.fill(p.endpoints) })
	var busy, failed *endpoint
	var seen []bool
	most := h.most(p)
	at := int(hashOf(key) % uint64(len(h.table)))
	for left, i := len(p.endpoints), 0; left > 0 && i < len(h.table); i++ {
		index := int(h.table[(at+i)%len(h.table)])
		if seen == nil && i > 0 {
			seen = make([]bool, len(p.endpoints))
			seen[h.table[at]] = true
		}
		if i > 0 && seen[index] {
			continue
		}
		if left--; seen != nil {
			seen[index] = true
		}
		e := p.endpoints[index]
		switch {
		case contains(tried, e):
		case e.state.failed.Load() > now.UnixNano():
			if failed == nil {
				failed = e
			}
		case most > 0 && float64(e.state.active.Load()) > most:
			if busy == nil {
				busy = e
			}
		default:
			return e
		}
	}
	if busy != nil {
		return busy
	}
	return failed
}

// most returns the number of requests in progress up to which a backend gets another; 0
// means any number.
func (h *hashing) most(p *pool) float64 {
	if h.factor <= 0 {
		return 0
	}
	var all int64
	for _, e := range p.endpoints {
		all += e.state.active.Load()
	}
	return h.factor * float64(all) / float64(len(p.endpoints))
}

// fill builds the table: the backends take turns, each taking the next free slot in its own
// permutation of the slots. Backends are ordered by name, so that the table depends only on
// the names.
func (h *hashing) fill(endpoints []*endpoint) {
	type one struct {
		name       string
		index      int
		slot, step uint64
	}
	size := uint64(smallHashTable)
	if len(endpoints) > manyBackends {
		size = largeHashTable
	}
	all := make([]one, len(endpoints))
	for i, e := range endpoints {
		name := e.InstanceGUID + " " + e.Address
		offset := hashOf(name)
		all[i] = one{name: name, index: i, slot: offset % size, step: mixed(offset)%(size-1) + 1}
	}
	slices.SortFunc(all, func(a, b one) int { return strings.Compare(a.name, b.name) })
	const free = ^uint16(0)
	h.table = make([]uint16, size)
	for i := range h.table {
		h.table[i] = free
	}
	for left := size; ; {
		for i := range all {
			b := &all[i]
			for h.table[b.slot] != free {
				b.slot = (b.slot + b.step) % size
			}
			h.table[b.slot] = uint16(b.index)
			if left--; left == 0 {
				return
			}
		}
	}
}

// hashOf is FNV-1a, mixed so that similar names get distant hashes.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mixed(h)
}

func mixed(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
