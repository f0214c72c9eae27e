package logs

import (
	"os"
	"slices"
	"strconv"
	"strings"
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
			// Its header is incomplete, so no line was written to it.
			if err := os.Remove(a.path(newest)); err != nil {
				return false, err
			}
			continue
		}
		return true, a.loadSealed(h, numbers)
	}
	return false, nil
}

func (a *appLog) loadNewest(number uint64) (*header, error) {
	buf, err := os.ReadFile(a.path(number))
	if err != nil {
		return nil, err
	}
	s := scanner{buf: buf}
	seg := segment{number: number}
	marks := map[string]*streamMark{}
	take := func(h *header) {
		for i := range h.streams {
			marks[h.streams[i].name] = &h.streams[i]
		}
	}
	mark := func(name string) *streamMark {
		m := marks[name]
		if m == nil {
			m = &streamMark{name: name}
			marks[name] = m
		}
		return m
	}
	taken := false
	var later []streamMark // losses, until the header has been processed
	s.loss = func(name string, n uint64) {
		later = append(later, streamMark{name: name, lost: n})
	}
	var l line
	for {
		more, err := s.next(&l)
		if s.header != nil && !taken {
			take(s.header)
			a.lost, taken = s.header.lost, true
		}
		for _, loss := range later {
			mark(loss.name).lost += loss.lost
			a.lost += loss.lost
		}
		later = later[:0]
		if !more {
			if err != nil && s.header != nil {
				a.store.options.Log.Info("truncated a damaged log segment", "file", a.path(number), "bytes", len(buf)-s.off)
				if err := os.Truncate(a.path(number), int64(s.off)); err != nil {
					return nil, err
				}
			}
			break
		}
		seg.add(l.at)
		m := mark(l.origin.stream)
		m.seq, m.last = max(m.seq, l.seq), max(m.last, l.at)
	}
	if s.header == nil {
		return nil, nil //nolint:nilnil // nothing to load is not an error
	}
	seg.size = int64(s.off)
	a.active, a.next = seg, number+1
	a.expired = s.header.expired
	a.store.disk.Add(seg.size)
	for _, m := range marks {
		if m.name == "" {
			a.own.last, a.own.nextLast = m.last, m.last
			a.own.lost.Store(m.lost)
			continue
		}
		if _, err := a.addStream(*m); err != nil {
			a.store.options.Log.Warn("log stream belongs to two apps", "error", err)
		}
	}
	return s.header, nil
}

// loadSealed loads the older segments: from the header those that it lists, from the file
// those that differ from it. Segments that it does not list had been dropped.
func (a *appLog) loadSealed(h *header, numbers []uint64) error {
	for _, s := range h.segments {
		i, there := slices.BinarySearch(numbers, s.number)
		if !there {
			a.expired += s.count
			continue
		}
		numbers = slices.Delete(numbers, i, i+1)
		info, err := os.Stat(a.path(s.number))
		if err != nil {
			return err
		}
		if info.Size() != s.size {
			buf, err := os.ReadFile(a.path(s.number))
			if err != nil {
				return err
			}
			s = measure(s.number, buf)
		}
		a.sealed = append(a.sealed, s)
		a.old.Add(s.size)
		a.store.disk.Add(s.size)
	}
	for _, left := range numbers {
		if err := os.Remove(a.path(left)); err != nil {
			return err
		}
	}
	return nil
}

// measure reads a whole segment, up to the first damage.
func measure(number uint64, buf []byte) segment {
	sc := scanner{buf: buf}
	seg := segment{number: number}
	var l line
	for {
		if more, _ := sc.next(&l); !more {
			seg.size = int64(sc.off)
			return seg
		}
		seg.add(l.at)
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
