package connlimit

import (
	"container/list"
	"sync"
	"time"
)

// Limits are numbers of connections that are open at once.
type Limits struct {
	PerSource int
	Total     int
}

// Limiter counts open connections by their source. When Total is reached, a
// source with few connections still gets one: the source with the most loses the
// connection that has been quiet for the longest time. So a source that floods
// takes from itself, not from others.
type Limiter struct {
	limits Limits

	mu      sync.Mutex
	total   int
	sources map[string]*list.List // of *Slot, the quietest first
}

// Slot is the place of one open connection.
type Slot struct {
	limiter *Limiter
	source  string
	end     func()
	at      *list.Element // nil once it was released
	touched time.Time
}

// New returns a limiter. A limit of zero or less means that there is none.
func New(l Limits) *Limiter { return &Limiter{limits: l, sources: map[string]*list.List{}} }

// Take asks for the place of a connection; nil means that there is none for this
// source. end is called, once and from another goroutine's Take, when the
// connection has to make room for another source's; it must close the connection
// and must not wait. Release has to be called in the end in any case.
func (l *Limiter) Take(source string, end func()) *Slot {
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
		// One less for them must not be less than one more for us.
		if largest == nil || largest.Len() <= count+1 {
			l.mu.Unlock()
			return nil
		}
		evicted = largest.Front().Value.(*Slot) //nolint:forcetypeassert // nothing else is in there
		l.remove(evicted)
	}
	if mine = l.sources[source]; mine == nil {
		mine = list.New()
		l.sources[source] = mine
	}
	s := &Slot{limiter: l, source: source, end: end, touched: time.Now()}
	s.at = mine.PushBack(s)
	l.total++
	l.mu.Unlock()
	if evicted != nil {
		evicted.end()
	}
	return s
}

// largest is the source with the most connections.
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

// Touch notes that the connection was used. It must not be called by two
// goroutines at once.
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

// Release gives the place back. It may be called more than once.
func (s *Slot) Release() {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	s.limiter.remove(s)
}
