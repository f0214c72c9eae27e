package main

import (
	"encoding/json"
	"sync"
)

// part is a request of the app, with attributes added.
type part struct {
	signal string // traces, metrics or logs
	json   bool
	body   []byte
	items  int
}

// queue holds parts until they are sent. It has a limit of bytes for all signals; the
// oldest part makes room for a new one.
type queue struct {
	limit int

	mu      sync.Mutex
	parts   []part
	size    int
	dropped map[string]int // items, by signal, since the last report
	// more is closed and replaced when a part arrives.
	more chan struct{}
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, dropped: map[string]int{}, more: make(chan struct{})}
}

// put adds a part.
func (q *queue) put(p part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.parts) > 0 && q.size+len(p.body) > q.limit {
		old := q.parts[0]
		q.parts[0] = part{}
		q.parts = q.parts[1:]
		q.size -= len(old.body)
		q.dropped[old.signal] += old.items
	}
	if len(p.body) > q.limit {
		q.dropped[p.signal] += p.items
		return
	}
	q.parts = append(q.parts, p)
	q.size += len(p.body)
	close(q.more)
	q.more = make(chan struct{})
}

// back puts a part that could not be sent in front of the others. It was counted before,
// so it may exceed the limit for a moment.
func (q *queue) back(p part) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.parts = append([]part{p}, q.parts...)
	q.size += len(p.body)
}

// drop counts items that were given up.
func (q *queue) drop(signal string, items int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropped[signal] += items
}

// takeDropped returns the number of dropped items by signal, and resets the counts.
func (q *queue) takeDropped() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.dropped
	q.dropped = map[string]int{}
	return was
}

// ready returns the bytes that wait for a signal, and a channel that is closed when there
// are more.
func (q *queue) ready(signal string) (int, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, p := range q.parts {
		if p.signal == signal {
			n += len(p.body)
		}
	}
	return n, q.more
}

// take removes the oldest parts of a signal, up to a size, and returns them as one
// request. It has no items if nothing waits. Parts of both encodings do not mix.
func (q *queue) take(signal string, most int) part {
	q.mu.Lock()
	var taken, left []part
	size := 0
	full := false
	for _, p := range q.parts {
		fits := p.signal == signal && !full && (len(taken) == 0 || p.json == taken[0].json && size+len(p.body) <= most)
		if p.signal == signal && !fits {
			full = true // keep their order
		}
		if !fits {
			left = append(left, p)
			continue
		}
		taken = append(taken, p)
		size += len(p.body)
	}
	q.parts = left
	q.size -= size
	q.mu.Unlock()
	return join(signal, taken)
}

// join merges parts. In protobuf, messages that follow each other are one message.
func join(signal string, parts []part) part {
	if len(parts) == 1 {
		return parts[0]
	}
	out := part{signal: signal}
	var entries []json.RawMessage
	for _, p := range parts {
		out.items += p.items
		out.json = p.json
		if !p.json {
			out.body = append(out.body, p.body...)
			continue
		}
		more, err := entriesOf(signal, p.body)
		if err == nil { // it was made by joinJSON
			entries = append(entries, more...)
		}
	}
	if out.json {
		out.body = joinJSON(signal, entries)
	}
	return out
}
