package connlimit

import (
	"container/list"
	"sync"
	"time"
)

// Limits are the maximum numbers of open connections.
type Limits struct {
	PerSource int
	Total     int
}

// Limiter counts open connections by source. When Total is reached, a source
// with few connections can still open one: the source with the most connections
// loses the one that has been idle longest. So a flood hurts only the source it
// comes from.
type Limiter struct {
	limits Limits

	mu      sync.Mutex
	total   int
	sources map[string]*list.List // of *Slot, longest idle first
}

// Slot counts one open connection.
type Slot struct {
	limiter *Limiter
	source  string
	evict   func()
	at      *list.Element // nil after Release
	touched time.Time
}

// New returns a limiter. A limit of zero or less means no limit.
func New(l Limits) *Limiter { return &Limiter{limits: l, sources: map[string]*list.List{}} }

// Take counts a new connection of source and returns its slot, or nil if the
// limit is reached. evict is called at most once, from another goroutine's
// Take, when the connection has to be closed in favor of another source; it
// must close the connection without blocking. The caller must always call
// Release in the end.
func (l *Limiter) Take(source string, evict func()) *Slot {
	l.mu.Lock()
	mine := l.sources[source]
	count := 0
	if mine != nil {
		count = mine.Len()
	}
	if l.limits.PerSource > 0 && count >= l.limits.PerSource {
		l.mu.Unlock()
		return nil
	}
	var evicted *Slot
	if l.limits.Total > 0 && l.total >= l.limits.Total {
		largest := l.largest()
		// Evict only if the other source still has at least as many connections
		// as this one afterwards.
		if largest == nil || largest.Len() <= count+1 {
			l.mu.Unlock()
			return nil
		}
		evicted = largest.Front().Value.(*Slot) //nolint:forcetypeassert // the list holds only slots
		l.remove(evicted)
	}
	if mine = l.sources[source]; mine == nil {
		mine = list.New()
		l.sources[source] = mine
	}
	s := &Slot{limiter: l, source: source, evict: evict, touched: time.Now()}
	s.at = mine.PushBack(s)
	l.total++
	l.mu.Unlock()
	if evicted != nil {
		evicted.evict()
	}
	return s
}

// largest returns the list of the source with the most connections.
func (l *Limiter) largest() (most *list.List) {
	for _, one := range l.sources {
		if most == nil || one.Len() > most.Len() {
			most = one
		}
	}
	return most
}

func (l *Limiter) remove(s *Slot) {
	if s.at == nil {
		return
	}
	of := l.sources[s.source]
	of.Remove(s.at)
	s.at = nil
	l.total--
	if of.Len() == 0 {
		delete(l.sources, s.source)
	}
}

// Open returns how many connections are open.
func (l *Limiter) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// touchInterval bounds how often a busy connection takes the lock.
const touchInterval = time.Second

// Touch records that the connection was used. It must not be called
// concurrently.
func (s *Slot) Touch() {
	now := time.Now()
	if now.Sub(s.touched) < touchInterval {
		return
	}
	s.touched = now
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	if s.at != nil {
		s.limiter.sources[s.source].MoveToBack(s.at)
	}
}

// Release stops counting the connection. It may be called more than once.
func (s *Slot) Release() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.limiter.remove(s)
}
