package controller

import "sync"

// queue is the apps that somebody should look at. An app is in it once, however
// often it is added, and is handed out to one worker at a time; one that is
// added while it is being looked at is looked at again.
type queue struct {
	mu      sync.Mutex
	more    sync.Cond
	order   []string
	queued  map[string]bool // waits, or has to wait again
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

// next blocks for an app; ok is false when the queue was closed. done has to be
// called for every app.
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
