package logfiles

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/frame"
)

func metaOfA(t *testing.T, s *Store) logs.Meta {
	t.Helper()
	all, err := s.Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all["a"]
}

func sample(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 6 {
		if i == 3 {
			s.closeIdle(time.Now().Add(time.Hour)) // the writer begins anew
		}
		err := s.Append(platform.LogLine{App: "a", Time: at, Source: "APP/PROC/WEB", Instance: "0",
			Stream: fmt.Sprint("s", i%3), Seq: uint64(i + 1), Text: []byte(fmt.Sprint("line ", i))},
			platform.LogLine{App: "a", Time: at, Source: "API", Tags: map[string]string{"n": fmt.Sprint(i % 2)}, Stderr: true,
				Text: []byte("own")})
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "a", "0000000000000001.log"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func scan(b []byte) (lines []frame.Line, off int, err error) {
	s := frame.Scanner{Buf: b}
	for {
		var l frame.Line
		more, err := s.Next(&l)
		if !more {
			return lines, s.Off, err
		}
		lines = append(lines, l)
	}
}

func same(a, b frame.Line) bool {
	return a.At == b.At && a.Order == b.Order && a.Seq == b.Seq && a.Stderr == b.Stderr && bytes.Equal(a.Text, b.Text) &&
		a.Origin.Stream == b.Origin.Stream && a.Origin.Source == b.Origin.Source
}

// Whatever a file is cut to, a store opens it, has a prefix of the lines with
// the positions to match, and goes on.
func TestTornAnywhere(t *testing.T) {
	t.Parallel()
	whole := sample(t)
	all, _, err := scan(whole)
	if err != nil || len(all) != 12 {
		t.Fatalf("%d records, %v, want 12", len(all), err)
	}
	dir := t.TempDir()
	for n := range len(whole) {
		app := filepath.Join(dir, "a")
		if err := os.RemoveAll(app); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(app, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(app, "0000000000000001.log"), whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatalf("opening, cut at %d: %v", n, err)
		}
		before := int(metaOfA(t, s).Count)
		positions := map[string]uint64{}
		for _, l := range all[:before] {
			positions[l.Origin.Stream] = max(positions[l.Origin.Stream], l.Seq)
		}
		for _, name := range []string{"s0", "s1", "s2"} {
			if s.Position(name) != positions[name] {
				t.Fatalf("cut at %d: %s is at %d, want %d", n, name, s.Position(name), positions[name])
			}
		}
		if err := s.Append(platform.LogLine{App: "a", Source: "API", Text: []byte("new")}); err != nil {
			t.Fatalf("appending, cut at %d: %v", n, err)
		}
		s.Stop()
		if s, err = Open(dir, Options{}); err != nil {
			t.Fatalf("opening again, cut at %d: %v", n, err)
		}
		if got := int(metaOfA(t, s).Count); got != before+1 {
			t.Fatalf("cut at %d: %d lines, then %d", n, before, got)
		}
		s.Stop()
	}
}

// Segments that do not look as the newest header says are measured, missing
// ones are counted as expired, and ones that it does not know are dropped.
func TestStrangeSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{PerAppBytes: 128 << 10}
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 800 {
		if err := s.Append(platform.LogLine{App: "a", Stream: "s", Seq: uint64(i + 1), Source: "X",
			Text: bytes.Repeat([]byte("x"), 100)}); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
	numbers, err := segmentNumbers(filepath.Join(dir, "a"))
	if err != nil || len(numbers) < 6 {
		t.Fatalf("segments are %v, %v, want 6 or more", numbers, err)
	}
	path := func(n uint64) string { return s.newApp("a").path(n) }
	if err := os.Truncate(path(numbers[1]), 1000); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path(numbers[2])); err != nil {
		t.Fatal(err)
	}
	damaged, err := os.ReadFile(path(numbers[3]))
	if err != nil {
		t.Fatal(err)
	}
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(path(numbers[3]), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path(numbers[len(numbers)-1]+5), []byte("torn header"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	if s.Position("s") != 800 {
		t.Errorf("position %d", s.Position("s"))
	}
	m := metaOfA(t, s)
	if m.Expired == 0 || m.Count+m.Expired >= 800 {
		t.Errorf("meta %+v", m)
	}
	before := uint64(0)
	start := int64(math.MinInt64)
	n := 0
	for {
		page, err := s.Read(t.Context(), "a", logs.ReadQuery{Start: start, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			if e.Seq <= before {
				t.Fatalf("%d after %d", e.Seq, before)
			}
			before = e.Seq
			start = e.Time.UnixNano() + 1
			n++
		}
	}
	if before != 800 || n < 500 {
		t.Errorf("%d lines, the last is %d", n, before)
	}
}

// Segments of the version before, which had no losses, are understood.
func TestHeaderBefore(t *testing.T) {
	t.Parallel()
	b := []byte{'h', 1 /* version */, 3 /* expired */, 1 /* stream */, 1, 's', 9, 4, 1 /* segment */, 1, 4, 3, 2, 6}
	s := frame.Scanner{Buf: frame.AppendFrame(nil, b)}
	_, err := s.Next(new(frame.Line))
	h := s.Header
	if err != nil || h.Expired != 3 || h.Lost != 0 || h.Streams[0] != (frame.StreamMark{Name: "s", Seq: 9, Last: 2}) ||
		h.Segments[0] != (frame.Segment{Number: 1, Size: 2, Count: 3, Min: 1, Max: 3}) {
		t.Errorf("header is %+v, %v, want 3 expired, none lost, one stream and one segment", h, err)
	}
}

func FuzzSegment(f *testing.F) {
	whole := sample(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte{})
	f.Add(frame.AppendFrame(nil, frame.AppendHeader(nil, &frame.Header{
		Expired: 3, Streams: []frame.StreamMark{{Name: "s", Seq: 1, Last: 2, Lost: 4}},
		Segments: []frame.Segment{{Number: 1, Size: 2, Count: 3, Min: 4, Max: 5}},
	})))
	f.Fuzz(func(t *testing.T, b []byte) {
		lines, off, err := scan(b)
		if off > len(b) || (err == nil) != (off == len(b)) {
			t.Fatalf("%d of %d bytes, %v", off, len(b), err)
		}
		// What made sense makes the same sense when the rest is cut.
		again, end, err := scan(b[:off])
		if err != nil || end != off || len(again) != len(lines) {
			t.Fatalf("again: %d of %d bytes, %d of %d lines, %v", end, off, len(again), len(lines), err)
		}
		for i := range lines {
			if !same(lines[i], again[i]) {
				t.Fatalf("line %d: %+v, %+v", i, lines[i], again[i])
			}
		}
	})
}

// FuzzDamage changes a byte of a good segment: the lines before it stay.
func FuzzDamage(f *testing.F) {
	whole := sample(f)
	all, _, _ := scan(whole)
	f.Add(uint(100), byte(1))
	f.Fuzz(func(t *testing.T, at uint, change byte) {
		at %= uint(len(whole))
		b := bytes.Clone(whole)
		b[at] ^= change
		got, _, _ := scan(b)
		if len(got) > len(all) {
			t.Fatalf("%d lines became %d", len(all), len(got))
		}
		for i, l := range got {
			if !same(l, all[i]) {
				t.Fatalf("line %d: %+v, was %+v", i, l, all[i])
			}
		}
	})
}
