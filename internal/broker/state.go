package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/daemon"
)

// phase is the state of an instance or a binding.
type phase string

const (
	creating phase = "creating" // parts of it may exist on the server
	ready    phase = "ready"
	failed   phase = "failed" // creation failed; nothing of it exists
	deleting phase = "deleting"
)

// instance is the record of a service instance.
type instance struct {
	ID        string          `json:"id"`
	Offering  string          `json:"offering"` // its name
	PlanID    string          `json:"plan_id"`
	On        string          `json:"on"` // the server it is on; see backend.name
	Port      int             `json:"port,omitempty"`
	Phase     phase           `json:"phase"`
	Async     bool            `json:"async,omitempty"` // the client polls the last operation
	Failure   string          `json:"failure,omitempty"`
	Params    json.RawMessage `json:"parameters,omitempty"`
	Over      bool            `json:"over,omitempty"` // over the size of its plan
	CreatedAt time.Time       `json:"created_at"`

	Bindings map[string]*binding `json:"bindings,omitempty"`
}

// binding is the record of a binding. Its password is derived from the id and
// the nonce.
type binding struct {
	ID        string          `json:"id"`
	Nonce     string          `json:"nonce"`
	Root      string          `json:"root,omitempty"` // see root
	Phase     phase           `json:"phase"`
	AppGUID   string          `json:"app_guid,omitempty"`
	Params    json.RawMessage `json:"parameters,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
}

// The names on a server are hashes of ids, because ids may have any characters.

func (i *instance) hash() string     { return hash("instance", i.ID) }
func (i *instance) database() string { return "db" + i.hash() }
func (i *instance) owner() string    { return "own" + i.hash() }

// isOurs reports whether Ingot runs the instance's server.
func (i *instance) isOurs() bool { return i.On == local || i.On == own }

// hasPort reports whether the instance has its own port.
func (i *instance) hasPort() bool { return i.Offering == Redis || i.On == own }

// temporary is a user, or the beginning of its name, that exists while data is saved or loaded.
func (i *instance) temporary() string { return "tmp" + i.hash() }

func (i *instance) user(b *binding) string { return "u" + hash("binding", i.ID, b.ID) }

// clone returns a copy that can be changed and saved while others read.
func (i *instance) clone() *instance {
	c := *i
	c.Bindings = make(map[string]*binding, len(i.Bindings))
	for id, b := range i.Bindings {
		copied := *b
		c.Bindings[id] = &copied
	}
	return &c
}

func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:12])
}

// state stores all instances, each in its own file.
type state struct {
	dir string

	mu    sync.Mutex
	all   map[string]*instance
	locks map[string]*lock
}

type lock struct {
	held  chan struct{}
	users int
}

// openState reads the records. Unless readOnly is set, it removes what was left of writing
// one.
func openState(dir string, readOnly bool) (*state, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &state{dir: dir, all: map[string]*instance{}, locks: map[string]*lock{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".new-") {
			if !readOnly {
				os.Remove(path) // an interrupted write
			}
			continue
		}
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		i := &instance{}
		if err := json.Unmarshal(content, i); err != nil || i.ID == "" {
			return nil,
				fmt.Errorf("%s is not a record of a service instance (%w): restore it from a backup, or move it away to forget "+
					"the instance", path, err)
		}
		s.all[i.ID] = i
	}
	return s, nil
}

// acquire locks the instance, waiting until no other operation holds it. The
// returned function unlocks it.
func (s *state) acquire(ctx context.Context, id string) (release func(), err error) {
	l := s.lockOf(id)
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; s.leave(id, l) }, nil
	case <-ctx.Done():
		s.leave(id, l)
		return nil, ctx.Err()
	}
}

// tryAcquire is acquire without waiting: what looks at all instances must not wait for an operation of one.
func (s *state) tryAcquire(id string) (release func(), ok bool) {
	l := s.lockOf(id)
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; s.leave(id, l) }, true
	default:
		s.leave(id, l)
		return nil, false
	}
}

// lockOf returns the lock of an instance, which is kept until leave is called.
func (s *state) lockOf(id string) *lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locks[id]
	if l == nil {
		l = &lock{held: make(chan struct{}, 1)}
		s.locks[id] = l
	}
	l.users++
	return l
}

func (s *state) leave(id string, l *lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.locks, id)
	}
}

// get returns a copy of the record, or nil if it does not exist.
func (s *state) get(id string) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.all[id]; i != nil {
		return i.clone()
	}
	return nil
}

func (s *state) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.all))
}

func (s *state) list() []*instance {
	var list []*instance
	for _, id := range s.ids() {
		if i := s.get(id); i != nil {
			list = append(list, i)
		}
	}
	return list
}

// save writes the record to disk. The caller must have acquired the instance.
func (s *state) save(i *instance) error {
	content, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	if err := daemon.WriteFile(s.path(i.ID), append(content, '\n'), nil); err != nil {
		return fmt.Errorf("write the record of the service instance: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[i.ID] = i.clone()
	return nil
}

// remove deletes the record of an instance.
func (s *state) remove(id string) error {
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := daemon.SyncDir(s.dir); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
	return nil
}

func (s *state) path(id string) string { return filepath.Join(s.dir, hash("instance", id)+".json") }
