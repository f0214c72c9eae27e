package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/run"
)

// What a store and its tails return when they have ended.
var (
	ErrStopped = errors.New("the log store is stopped")
	ErrClosed  = errors.New("the tail is closed")
)

// deletedPrefix marks the folders of apps whose deletion was begun.
const deletedPrefix = ".deleted-"

// Store keeps the logs of all apps below one folder. It can be used as soon as
// it is open; Start adds the closing of files that nobody uses.
type Store struct {
	run.Part
	dir          string
	options      Options
	segmentBytes int64
	maxStreams   int
	open         atomic.Int64 // files
	streams      sync.Map     // name to *stream, of all apps
	reads        chan struct{}
	tailBytes    atomic.Int64
	tailLimit    int64

	mu      sync.RWMutex
	apps    map[string]*appLog
	stopped bool
}

var _ run.Service = (*Store)(nil)

// Open opens the store in dir, which it creates. What a crash left torn is cut.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{
		dir:          dir,
		options:      o,
		segmentBytes: o.segmentBytes(),
		maxStreams:   o.streams(),
		apps:         map[string]*appLog{},
		// Half of the memory for reads, which hold at most an app's share and
		// the page made of it, half for tails.
		reads:     make(chan struct{}, max(2, o.MemoryBytes/2/(o.PerAppBytes+maxPageBytes))),
		tailLimit: o.MemoryBytes / 2,
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the log store: %w", err)
	}
	for _, f := range folders {
		name := f.Name()
		switch {
		case strings.HasPrefix(name, deletedPrefix):
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return nil, fmt.Errorf("open the log store: %w", err)
			}
		case f.IsDir() && validApp(name):
			a := s.newApp(name)
			there, err := a.load()
			if err != nil {
				return nil, fmt.Errorf("open the log of app %s: %w", name, err)
			}
			if !there {
				_ = os.Remove(a.dir) // an empty folder; one with strange files stays
				continue
			}
			s.apps[name] = a
		}
	}
	return s, nil
}

func (s *Store) newApp(guid string) *appLog {
	return &appLog{store: s, guid: guid, dir: filepath.Join(s.dir, guid), next: 1}
}

// Start begins to close the files of quiet apps.
func (s *Store) Start(ctx context.Context) error {
	return s.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() {
			tick := time.NewTicker(s.options.IdleAfter)
			defer tick.Stop()
			for {
				select {
				case <-work.Done():
					return
				case now := <-tick.C:
					s.closeIdle(now)
				}
			}
		})
		return nil
	})
}

// Stop closes all files and ends all tails. Appends after it fail.
func (s *Store) Stop() {
	s.Halt(nil)
	s.mu.Lock()
	s.stopped = true
	apps := s.apps
	s.apps = map[string]*appLog{}
	s.mu.Unlock()
	for _, a := range apps {
		a.retire(ErrStopped)
	}
}

// retire makes the app's log unusable: whoever holds it looks it up again.
func (a *appLog) retire(reason error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
	a.closeFile()
	for t := range a.tails {
		t.end(reason)
	}
	a.tails = nil
}

func (s *Store) closeIdle(now time.Time) {
	for _, a := range s.all() {
		if !a.mu.TryLock() {
			continue // it is in use
		}
		if a.file != nil && now.Sub(a.lastUsed) >= s.options.IdleAfter {
			a.closeFile()
		}
		a.mu.Unlock()
	}
}

func (s *Store) all() []*appLog {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*appLog, 0, len(s.apps))
	for _, a := range s.apps {
		all = append(all, a)
	}
	return all
}

// app returns the log of an app, or nil.
func (s *Store) app(guid string) *appLog {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.apps[guid]
}

func (s *Store) makeApp(guid string) (*appLog, error) {
	if a := s.app(guid); a != nil {
		return a, nil
	}
	if !validApp(guid) {
		return nil, fmt.Errorf("%q cannot be the guid of an app", guid)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, ErrStopped
	}
	a := s.apps[guid]
	if a == nil {
		a = s.newApp(guid)
		s.apps[guid] = a
	}
	return a, nil
}

// Append writes entries, those of one app with one write (one per segment when
// they fill more than one). When it returns nil they outlive this process. An
// entry whose Seq is not above its stream's Position is there already and is
// left out. Times that do not increase within a stream are moved up by a
// nanosecond, a time that is missing or in the future becomes now.
//
// An entry that can never be written (a stream of another app, an impossible
// guid) does not keep the others out; the error tells of it. After a failed
// write the Position tells what is there.
func (s *Store) Append(entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	now := time.Now()
	app := entries[0].App
	if !slices.ContainsFunc(entries, func(e Entry) bool { return e.App != app }) {
		return s.appendTo(app, entries, now)
	}
	groups := map[string][]Entry{}
	for _, e := range entries {
		groups[e.App] = append(groups[e.App], e)
	}
	var problems []error
	for app, group := range groups {
		problems = append(problems, s.appendTo(app, group, now))
	}
	return errors.Join(problems...)
}

func (s *Store) appendTo(app string, entries []Entry, now time.Time) error {
	for {
		a, err := s.makeApp(app)
		if err != nil {
			return err
		}
		retry, err := a.append(entries, now)
		if !retry {
			return err
		}
	}
}

// Position is the last Seq of the stream that is in the store, 0 when it knows
// none. It survives restarts, also when the line itself has been dropped.
func (s *Store) Position(name string) uint64 {
	if st, ok := s.streams.Load(name); ok {
		return st.(*stream).seq.Load()
	}
	return 0
}

// Forget drops the position of a stream that will not be fed again, so that
// it need not be remembered with every segment.
func (s *Store) Forget(name string) {
	found, ok := s.streams.Load(name)
	if !ok {
		return
	}
	st := found.(*stream)
	st.app.mu.Lock()
	defer st.app.mu.Unlock()
	if st.app.streams[name] == st {
		delete(st.app.streams, name)
		s.streams.CompareAndDelete(name, st)
	}
}

// DeleteApp drops all lines of an app and the positions of its streams. Lines
// that come later begin a new log.
func (s *Store) DeleteApp(app string) error {
	s.mu.Lock()
	a := s.apps[app]
	if a == nil {
		s.mu.Unlock()
		return nil
	}
	a.retire(ErrClosed)
	trash := filepath.Join(s.dir, deletedPrefix+app)
	err := os.Rename(a.dir, trash)
	for name, st := range a.streams {
		s.streams.CompareAndDelete(name, st)
	}
	delete(s.apps, app)
	s.mu.Unlock()
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.RemoveAll(trash)
	}
	if err != nil {
		return fmt.Errorf("delete the log of app %s: %w", app, err)
	}
	return nil
}

// Meta is what is known of an app's log without reading it.
type Meta struct {
	Count   uint64 // lines that can be read
	Expired uint64 // lines dropped to make room
	Oldest  time.Time
	Newest  time.Time
	Bytes   int64
}

// Meta describes the logs of all apps.
func (s *Store) Meta() map[string]Meta {
	out := map[string]Meta{}
	for _, a := range s.all() {
		if m := a.meta(); m.Count > 0 || m.Expired > 0 {
			out[a.guid] = m
		}
	}
	return out
}

func (a *appLog) meta() Meta {
	a.mu.RLock()
	defer a.mu.RUnlock()
	m := Meta{Expired: a.expired}
	add := func(s segment) {
		m.Bytes += s.size
		if s.count == 0 {
			return
		}
		oldest, newest := time.Unix(0, s.min).UTC(), time.Unix(0, s.max).UTC()
		if m.Count == 0 || oldest.Before(m.Oldest) {
			m.Oldest = oldest
		}
		if m.Count == 0 || newest.After(m.Newest) {
			m.Newest = newest
		}
		m.Count += s.count
	}
	for _, s := range a.sealed {
		add(s)
	}
	add(a.active)
	return m
}
