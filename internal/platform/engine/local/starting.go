package local

import "sync"

// Starting is the set of instances that an engine is starting. They are not visible yet: one
// would look as if it had ended. The zero value is empty.
type Starting struct {
	mu  sync.Mutex
	ids map[string]bool
}

// Begin adds an instance. done removes it.
func (s *Starting) Begin(id string) (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.ids[id] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ids, id)
	}
}

// Has reports whether an instance is being started.
func (s *Starting) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ids[id]
}
