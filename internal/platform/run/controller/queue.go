package controller

import "sync"

// queue is the work queue of apps. An app is in it at most once and is handed out to one
// worker at a time; an app that is added while a worker handles it is handed out again.
type queue struct {
	mu      sync.Mutex
	more    sync.Cond
	order   []string
	queued  map[string]bool // queued, or to be queued again
	working map[string]bool
	closed  bool
}

func newQueue() *queue {
	q := &queue{queued: map[string]bool{}, working: map[string]bool{}}
	q.more.L = &q.mu
	return q
}

// add never blocks.
func (q *queue) add(guids ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, guid := range guids {
		if guid == "" || q.queued[guid] || q.closed {
			continue
		}
		q.queued[guid] = true
		if !q.working[guid] {
			q.order = append(q.order, guid)
			q.more.Signal()
		}
	}
}

// next waits for an app; ok is false if the queue was closed. The worker must call done for
// every app.
func (q *queue) next() (guid string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.order) == 0 && !q.closed {
		q.more.Wait()
	}
	if q.closed {
		return "", false
	}
	guid, q.order = q.order[0], q.order[1:]
	delete(q.queued, guid)
	q.working[guid] = true
	return guid, true
}

func (q *queue) done(guid string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.working, guid)
	if q.queued[guid] && !q.closed {
		q.order = append(q.order, guid)
		q.more.Signal()
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Broadcast()
}
