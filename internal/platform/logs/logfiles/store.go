package logfiles

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

// deletedPrefix marks the folders of apps that are being deleted.
const deletedPrefix = ".deleted-"

// Store keeps the logs of all apps below one folder. It can be used once it is open; Start
// also closes unused files.
type Store struct {
	background.Part
	dir          string
	options      Options
	segmentBytes int64
	maxStreams   int
	open         atomic.Int64 // files
	streams      sync.Map     // name to *stream, of all apps
	reads        chan struct{}
	lost         atomic.Uint64
	disk         atomic.Int64 // bytes in all segments
	known        atomic.Int64 // apps
	shrinking    sync.Mutex
	readers      logs.Readers

	mu      sync.RWMutex
	apps    map[string]*appLog
	stopped bool
}

var _ logs.Store = (*Store)(nil)

// Open opens the store in dir, which it creates. It truncates what a crash left incomplete.
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{
		dir:          dir,
		options:      o,
		segmentBytes: o.segmentBytes(),
		maxStreams:   o.streams(),
		apps:         map[string]*appLog{},
		// A read holds at most an app's share and the page made from it.
		reads: make(chan struct{}, max(2, o.MemoryBytes/(o.PerAppBytes+frame.PageBytes))),
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
		case f.IsDir() && frame.CheckApp(name) == nil:
			a := s.newApp(name)
			there, err := a.load()
			if err != nil {
				return nil, fmt.Errorf("open the log of app %s: %w", name, err)
			}
			if !there {
				_ = os.Remove(a.dir) // an empty folder; one with unknown files stays
				continue
			}
			s.apps[name] = a
		}
	}
	s.known.Store(int64(len(s.apps)))
	s.shrink()
	return s, nil
}

func (s *Store) newApp(guid string) *appLog {
	return &appLog{store: s, guid: guid, dir: filepath.Join(s.dir, guid), next: 1}
}

// segmentLimit returns the size of a segment: smaller if there are so many apps that their
// newest segments alone would use much of the total.
func (s *Store) segmentLimit() int64 {
	return min(s.segmentBytes, max(minSegment, s.options.TotalBytes/4/max(1, s.known.Load())))
}

// room returns the disk usage above which old segments are dropped: a little less than the
// limit, because several apps may be writing.
func (s *Store) room() int64 { return s.options.TotalBytes / 16 * 15 }

// makeRoom is called after a write of an app. When the limit of all apps is exceeded, it
// drops old lines of the app with the most. While another goroutine does that, an app above
// its share drops its own, so that writers cannot outrun it.
func (s *Store) makeRoom(a *appLog) {
	for s.disk.Load() > s.room() && !s.shrink() {
		if a.old.Load() <= s.room()/2/max(1, s.known.Load()) || !a.shed() {
			return
		}
	}
}

// shrink drops old segments until there is room, each from the app with the most. Newest
// segments stay, because they have the positions of streams. It returns false if another
// goroutine is doing this.
func (s *Store) shrink() bool {
	if !s.shrinking.TryLock() {
		return false
	}
	defer s.shrinking.Unlock()
	all := s.all()
	for s.disk.Load() > s.room() {
		var largest *appLog
		for _, a := range all {
			if largest == nil || a.old.Load() > largest.old.Load() {
				largest = a
			}
		}
		if largest == nil || !largest.shed() {
			break
		}
	}
	return true
}

// shed drops the oldest sealed segment, if there is one.
func (a *appLog) shed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.gone || len(a.sealed) == 0 {
		return false
	}
	a.dropOldest()
	return true
}

// Start starts closing the files of quiet apps.
func (s *Store) Start(ctx context.Context) error {
	return s.Run(ctx, func(work context.Context) {
		for now := range background.Ticks(work, s.options.IdleAfter, nil) {
			s.closeIdle(now)
		}
	})
}

// Stop closes all files and all tails. Appends after it fail.
func (s *Store) Stop() {
	s.Halt(nil)
	s.mu.Lock()
	s.stopped = true
	apps := s.apps
	s.apps = map[string]*appLog{}
	s.mu.Unlock()
	for _, a := range apps {
		a.retire(logs.ErrStopped)
	}
}

// retire makes the app's log unusable: its users look it up again.
func (a *appLog) retire(reason error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone = true
	a.closeFile()
	for t := range a.tails {
		t.signal()
	}
	a.tails, a.reason = nil, reason
}

func (s *Store) closeIdle(now time.Time) {
	for _, a := range s.all() {
		if !a.mu.TryLock() {
			continue // it is in use
		}
		if a.file != nil && now.Sub(a.lastUsed) >= s.options.IdleAfter {
			a.closeFile()
		}
		pending := a.unreported > 0
		a.mu.Unlock()
		if pending {
			_, _ = a.append(nil, now, true) // if that fails the loss is reported later
		}
	}
}

func (s *Store) all() []*appLog {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*appLog, 0, len(s.apps))
	all = slices.AppendSeq(all, maps.Values(s.apps))
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
	if err := frame.CheckApp(guid); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, logs.ErrStopped
	}
	a := s.apps[guid]
	if a == nil {
		a = s.newApp(guid)
		s.apps[guid] = a
		s.known.Add(1)
	}
	return a, nil
}

// Append implements logs.Store. It writes the lines of one app with one write, or one per
// segment if they fill more than one.
func (s *Store) Append(lines ...platform.LogLine) error { return s.appendAll(lines, false) }

// Tell implements logs.Store.
func (s *Store) Tell(lines ...platform.LogLine) error { return s.appendAll(lines, true) }

func (s *Store) appendAll(entries []platform.LogLine, tell bool) error {
	if len(entries) == 0 {
		return nil
	}
	now := time.Now()
	app := entries[0].App
	if !slices.ContainsFunc(entries, func(e platform.LogLine) bool { return e.App != app }) {
		return s.appendTo(app, entries, now, tell)
	}
	groups := map[string][]platform.LogLine{}
	for _, e := range entries {
		groups[e.App] = append(groups[e.App], e)
	}
	var problems []error
	for app, group := range groups {
		problems = append(problems, s.appendTo(app, group, now, tell))
	}
	return errors.Join(problems...)
}

func (s *Store) appendTo(app string, entries []platform.LogLine, now time.Time, tell bool) error {
	for {
		a, err := s.makeApp(app)
		if err != nil {
			return err
		}
		retry, err := a.append(entries, now, tell)
		if !retry {
			s.makeRoom(a)
			return err
		}
	}
}

// Position implements logs.Store.
func (s *Store) Position(name string) uint64 {
	if st, ok := s.streams.Load(name); ok {
		return st.(*stream).seq.Load()
	}
	return 0
}

// Lost implements logs.Store.
func (s *Store) Lost(streams ...string) map[string]uint64 {
	out := make(map[string]uint64, len(streams))
	for _, name := range streams {
		if st, ok := s.streams.Load(name); ok {
			out[name] = st.(*stream).lost.Load()
		}
	}
	return out
}

// Totals implements logs.Store.
func (s *Store) Totals() logs.Totals {
	return logs.Totals{Apps: s.known.Load(), Bytes: s.disk.Load(), Lost: s.lost.Load()}
}

// Readers implements logs.Store.
func (s *Store) Readers() *logs.Readers { return &s.readers }

// Forget implements logs.Store. The position is not repeated in later segments.
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

// DeleteApp implements logs.Store.
func (s *Store) DeleteApp(app string) error {
	s.mu.Lock()
	a := s.apps[app]
	if a == nil {
		s.mu.Unlock()
		return nil
	}
	a.retire(logs.ErrClosed)
	trash := filepath.Join(s.dir, deletedPrefix+app)
	err := os.Rename(a.dir, trash)
	for name, st := range a.streams {
		s.streams.CompareAndDelete(name, st)
	}
	delete(s.apps, app)
	s.known.Add(-1)
	s.disk.Add(-a.old.Load() - a.active.Size)
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

// Meta implements logs.Store.
func (s *Store) Meta(context.Context) (map[string]logs.Meta, error) {
	out := map[string]logs.Meta{}
	for _, a := range s.all() {
		if m := a.meta(); m.Count > 0 || m.Expired > 0 || m.Lost > 0 {
			out[a.guid] = m
		}
	}
	return out, nil
}

func (a *appLog) meta() logs.Meta {
	a.mu.RLock()
	defer a.mu.RUnlock()
	m := logs.Meta{Expired: a.expired, Lost: a.lost + a.unreported}
	add := func(s frame.Segment) {
		m.Bytes += s.Size
		if s.Count == 0 {
			return
		}
		oldest, newest := time.Unix(0, s.Min).UTC(), time.Unix(0, s.Max).UTC()
		if m.Count == 0 || oldest.Before(m.Oldest) {
			m.Oldest = oldest
		}
		if m.Count == 0 || newest.After(m.Newest) {
			m.Newest = newest
		}
		m.Count += s.Count
	}
	for _, s := range a.sealed {
		add(s)
	}
	add(a.active)
	return m
}
