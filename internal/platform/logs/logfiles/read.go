package logfiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

// Read implements logs.Store.
func (s *Store) Read(_ context.Context, app string, q logs.ReadQuery) ([]platform.LogLine, error) {
	s.mu.RLock()
	a, stopped := s.apps[app], s.stopped
	s.mu.RUnlock()
	if stopped {
		return nil, logs.ErrStopped
	}
	if a == nil || !q.HasLines() {
		return nil, nil
	}
	return a.read(q)
}

func (a *appLog) read(q logs.ReadQuery) ([]platform.LogLine, error) {
	a.store.reads <- struct{}{}
	defer func() { <-a.store.reads }()
	page := frame.NewPage(q)
	defer page.Release()
	a.mu.RLock()
	all := append(slices.Clone(a.sealed), a.active)
	a.mu.RUnlock()
	for _, seg := range page.Overlapping(all) {
		if page.Done(seg) {
			break
		}
		buf, err := load(a.path(seg.Number), seg)
		if err != nil {
			return nil, fmt.Errorf("read the log of app %s: %w", a.guid, err)
		}
		if buf != nil {
			page.Add(buf, seg.Number, false)
		}
	}
	return page.Lines(a.guid), nil
}

// load reads a segment. It returns nil if that was dropped meanwhile.
func load(path string, seg frame.Segment) (*[]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := frame.GetBuffer(int(seg.Size))
	n, err := io.ReadFull(f, *b)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, err
	}
	*b = (*b)[:n]
	return b, nil
}
