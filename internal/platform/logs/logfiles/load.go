package logfiles

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/datadir"
	"ingot/internal/platform/logs/frame"
)

// load reads the app's folder. It returns false if that is empty.
func (a *appLog) load() (bool, error) {
	numbers, err := segmentNumbers(a.dir)
	if err != nil {
		return false, err
	}
	for len(numbers) > 0 {
		newest := numbers[len(numbers)-1]
		numbers = numbers[:len(numbers)-1]
		h, err := a.loadNewest(newest)
		if err != nil {
			return false, err
		}
		if h == nil {
			// Its header is incomplete, so no line was written to it; or it was set aside.
			if err := os.Remove(a.path(newest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, err
			}
			continue
		}
		return true, a.loadSealed(h, numbers)
	}
	return false, nil
}

func (a *appLog) loadNewest(number uint64) (*frame.Header, error) {
	buf, err := os.ReadFile(a.path(number))
	if datadir.IsDamaged(err) {
		return nil, datadir.SetAside(a.path(number), err, a.store.options.Log)
	}
	if err != nil {
		return nil, err
	}
	s := frame.Scanner{Buf: buf}
	seg := frame.Segment{Number: number}
	marks := map[string]*frame.StreamMark{}
	take := func(h *frame.Header) {
		for i := range h.Streams {
			marks[h.Streams[i].Name] = &h.Streams[i]
		}
	}
	mark := func(name string) *frame.StreamMark {
		m := marks[name]
		if m == nil {
			m = &frame.StreamMark{Name: name}
			marks[name] = m
		}
		return m
	}
	taken := false
	var later []frame.StreamMark // losses, until the header has been processed
	s.Loss = func(name string, n uint64) {
		later = append(later, frame.StreamMark{Name: name, Lost: n})
	}
	var l frame.Line
	for {
		more, err := s.Next(&l)
		if s.Header != nil && !taken {
			take(s.Header)
			a.lost, taken = s.Header.Lost, true
		}
		for _, loss := range later {
			mark(loss.Name).Lost += loss.Lost
			a.lost += loss.Lost
		}
		later = later[:0]
		if !more {
			if err != nil && s.Header != nil {
				a.store.options.Log.Info("truncated a damaged log segment", "file", a.path(number), "bytes", len(buf)-s.Off)
				if err := os.Truncate(a.path(number), int64(s.Off)); err != nil {
					return nil, err
				}
			}
			break
		}
		seg.Add(l.At)
		m := mark(l.Origin.Stream)
		m.Seq, m.Last = max(m.Seq, l.Seq), max(m.Last, l.At)
	}
	if s.Header == nil {
		if len(buf) > 0 {
			a.store.options.Log.Warn("removed a damaged log segment", "file", a.path(number), "bytes", len(buf))
		}
		return nil, nil //nolint:nilnil // nothing to load is not an error
	}
	seg.Size = int64(s.Off)
	a.active, a.next = seg, number+1
	a.expired = s.Header.Expired
	a.store.disk.Add(seg.Size)
	for _, m := range marks {
		if m.Name == "" {
			a.own.last, a.own.nextLast = m.Last, m.Last
			a.own.lost.Store(m.Lost)
			continue
		}
		if _, err := a.addStream(*m); err != nil {
			a.store.options.Log.Warn("log stream belongs to two apps", "error", err)
		}
	}
	return s.Header, nil
}

// loadSealed loads the older segments: from the header those that it lists, from the file
// those that differ from it. Segments that it does not list had been dropped.
func (a *appLog) loadSealed(h *frame.Header, numbers []uint64) error {
	for _, s := range h.Segments {
		i, there := slices.BinarySearch(numbers, s.Number)
		if !there {
			a.expired += s.Count
			continue
		}
		numbers = slices.Delete(numbers, i, i+1)
		whole, err := a.measured(s)
		if datadir.IsDamaged(err) {
			a.expired += s.Count
			if err := datadir.SetAside(a.path(s.Number), err, a.store.options.Log); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		s = whole
		a.sealed = append(a.sealed, s)
		a.old.Add(s.Size)
		a.store.disk.Add(s.Size)
	}
	for _, left := range numbers {
		if err := os.RemoveAll(a.path(left)); err != nil {
			return err
		}
	}
	return nil
}

// measured returns a segment of the header as its file is.
func (a *appLog) measured(s frame.Segment) (frame.Segment, error) {
	info, err := os.Stat(a.path(s.Number))
	if err != nil || info.Size() == s.Size && !info.IsDir() {
		return s, err
	}
	buf, err := os.ReadFile(a.path(s.Number))
	if err != nil {
		return s, err
	}
	return measure(s.Number, buf), nil
}

// measure reads a whole segment, up to the first damage.
func measure(number uint64, buf []byte) frame.Segment {
	sc := frame.Scanner{Buf: buf}
	seg := frame.Segment{Number: number}
	var l frame.Line
	for {
		if more, _ := sc.Next(&l); !more {
			seg.Size = int64(sc.Off)
			return seg
		}
		seg.Add(l.At)
	}
}

// segmentNumbers returns the segments in a folder, oldest first.
func segmentNumbers(dir string) ([]uint64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint64
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".log")
		if !ok || len(name) != 16 {
			continue
		}
		if n, err := strconv.ParseUint(name, 16, 64); err == nil && n > 0 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}
