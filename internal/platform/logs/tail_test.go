package logs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

// fill appends lines numbered from..to-1 in batches of odd sizes.
func fill(t testing.TB, s *logs.Store, app string, from, to int) {
	t.Helper()
	for from < to {
		var batch []platform.LogLine
		for range 1 + rand.IntN(97) {
			if from == to {
				break
			}
			batch = append(batch, line(app, "s-"+app, uint64(from+1), t0, fmt.Sprintf("%040d", from)))
			from++
		}
		add(t, s, batch...)
	}
}

func next(t testing.TB, tail *logs.Tail) logs.Batch {
	t.Helper()
	b, err := tail.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func startTail(t testing.TB, s *logs.Store, app string, from logs.Start) *logs.Tail {
	t.Helper()
	tail, err := s.Tail(app, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tail.Close)
	return tail
}

// A tail that was too slow is told exactly how many lines it missed, and goes on
// with the oldest that is left.
func TestSlowTailMissesAndIsTold(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), logs.Options{PerAppBytes: 256 << 10})
	tail := startTail(t, s, "a", logs.After(0))
	fill(t, s, "a", 0, 100)
	for seen := 0; seen < 100; {
		b := next(t, tail)
		seen += len(b.Entries)
	}
	const total = 20000
	fill(t, s, "a", 100, total)
	missed, want := uint64(0), uint64(101)
	for want <= total {
		b := next(t, tail)
		missed += b.Missed
		if b.First != want+b.Missed {
			t.Fatalf("batch begins with %d after %d missed, want %d", b.First, b.Missed, want+b.Missed)
		}
		for i, e := range b.Entries {
			if e.Seq != b.First+uint64(i) {
				t.Fatalf("line %d has number %d", e.Seq, b.First+uint64(i))
			}
		}
		want = b.Last() + 1
	}
	if m := s.Meta()["a"]; missed == 0 || missed != m.Expired-100 {
		t.Errorf("%d missed, %d dropped", missed, m.Expired)
	}
	s.Stop()
	if _, err := tail.Next(t.Context()); !errors.Is(err, logs.ErrStopped) {
		t.Errorf("Next after Stop = %v", err)
	}
}

// Numbers go on over restarts of the store, whatever is dropped.
func TestTailGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := logs.Options{PerAppBytes: 1 << 20}
	after, lines := uint64(0), 0
	for range 8 {
		s := open(t, dir, o)
		from := lines
		lines += 300 + rand.IntN(500)
		fill(t, s, "a", from, lines)
		tail := startTail(t, s, "a", logs.After(after))
		stop := after + uint64(rand.IntN(600))
		for after < stop && after < uint64(lines) {
			b := next(t, tail)
			if b.Missed != 0 || b.First != after+1 {
				t.Fatalf("%d missed, first %d after %d", b.Missed, b.First, after)
			}
			for i, e := range b.Entries {
				if e.Seq != b.First+uint64(i) {
					t.Fatalf("line %d has number %d", e.Seq, b.First+uint64(i))
				}
			}
			after = b.Last()
		}
		s.Stop()
	}
	s := open(t, dir, o)
	fill(t, s, "a", lines, lines+30000)
	b := next(t, startTail(t, s, "a", logs.After(after)))
	if b.Missed == 0 || b.Entries[0].Seq != after+b.Missed+1 {
		t.Errorf("%d missed after %d, then %d", b.Missed, after, b.Entries[0].Seq)
	}
}

func TestTailStarts(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), logs.Options{PerAppBytes: 128 << 10})
	fill(t, s, "a", 0, 5000)
	oldest := s.Meta()["a"].Expired + 1
	newest := startTail(t, s, "a", logs.Newest(3))
	for name, tc := range map[string]struct {
		from logs.Start
		want uint64
	}{
		"newest 1":             {logs.Newest(1), 5000},
		"newest of all":        {logs.Newest(1 << 40), oldest},
		"after the first":      {logs.After(1), oldest},
		"after 4998":           {logs.After(4998), 4999},
		"since the very start": {logs.Since(t0.AddDate(-1, 0, 0)), oldest},
		"since the last but 2": {logs.Since(s.Meta()["a"].Newest.Add(-2)), 4999},
	} {
		if b := next(t, startTail(t, s, "a", tc.from)); b.First != tc.want || b.Entries[0].Seq != tc.want {
			t.Errorf("%s: begins with %d (%d), want %d", name, b.First, b.Entries[0].Seq, tc.want)
		}
	}
	// Nothing is there yet for these.
	ahead, none := startTail(t, s, "a", logs.After(1<<50)), startTail(t, s, "a", logs.Newest(0))
	fill(t, s, "a", 5000, 5001)
	for _, tail := range []*logs.Tail{ahead, none} {
		if b := next(t, tail); len(b.Entries) != 1 || b.First != 5001 {
			t.Errorf("batch is %+v, want entry 5001 only", b)
		}
	}
	if b := next(t, newest); b.First != 4998 {
		t.Errorf("newest 3 begins with %d", b.First)
	}
}

// Lines behind damage are missed, not made up.
func TestTailOverDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, logs.Options{PerAppBytes: 1 << 20})
	fill(t, s, "a", 0, 3000)
	files, err := filepath.Glob(filepath.Join(dir, "a", "*.log"))
	if err != nil || len(files) < 3 {
		t.Fatalf("segments are %v, %v, want 3 or more", files, err)
	}
	b, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0xff
	if err := os.WriteFile(files[1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	tail := startTail(t, s, "a", logs.After(0))
	got, missed := 0, uint64(0)
	for last := uint64(0); last < 3000; {
		b := next(t, tail)
		missed += b.Missed
		got += len(b.Entries)
		for i, e := range b.Entries {
			if n := b.First + uint64(i); e.Seq != n || string(e.Text) != fmt.Sprintf("%040d", n-1) {
				t.Fatalf("number %d is %d %s", n, e.Seq, e.Text)
			}
		}
		last = b.Last()
	}
	if missed == 0 || uint64(got)+missed != 3000 {
		t.Errorf("%d lines, %d missed", got, missed)
	}
}

// Losses are added up by stream and app, once each, and outlive the process and
// the lines that tell of them.
func TestLosses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := logs.Options{PerAppBytes: 128 << 10}
	s := open(t, dir, o)
	loss := line("a", "s-a", 1, t0, "7 lines were lost")
	loss.Source, loss.Lost = logs.SourceLogs, 7
	own := platform.LogLine{App: "a", Source: logs.SourceLogs, Lost: 3, Text: []byte("3 more")}
	add(t, s, loss, own)
	add(t, s, loss) // brought again
	check := func(s *logs.Store) {
		t.Helper()
		if s.Lost("s-a") != 7 || s.Lost("other") != 0 || s.Meta()["a"].Lost != 10 {
			t.Errorf("%d of the stream, %+v", s.Lost("s-a"), s.Meta()["a"])
		}
	}
	check(s)
	s.Stop()
	s = open(t, dir, o)
	check(s)
	fill(t, s, "a", 1, 6000)
	check(s)
	if s.Meta()["a"].Expired < 10 {
		t.Fatal("the lines should be gone")
	}
	s.Stop()
	check(open(t, dir, o))
}

// What could not be written is told as soon as it can be.
func TestTellOwesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, logs.Options{})
	stop := filepath.Join(dir, "a")
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	own := platform.LogLine{App: "a", Source: "RTR", Instance: "0", Text: []byte("x")}
	for range 3 {
		if err := s.Tell(own, own); err == nil {
			t.Fatal("no error")
		}
	}
	if s.Meta()["a"].Lost != 6 {
		t.Errorf("meta is %+v, want 6 lost", s.Meta()["a"])
	}
	if err := os.Remove(stop); err != nil {
		t.Fatal(err)
	}
	add(t, s, own)
	got := read(t, s, "a", logs.ReadQuery{})
	want := []string{"6 lines about this app were lost: they could not be written to its log", "x"}
	if !slices.Equal(texts(got), want) || got[0].Source != "LGR" || s.Meta()["a"].Lost != 6 || s.Totals().Lost != 6 {
		t.Errorf("lines are %q, meta %+v, want %q and 6 lost", texts(got), s.Meta()["a"], want)
	}
}

// All apps together stay within the bound of the disk; who has least keeps all.
func TestTotalIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const total = 2 << 20
	o := logs.Options{PerAppBytes: 1 << 20, TotalBytes: total}
	s := open(t, dir, o)
	fill(t, s, "quiet", 0, 100)
	for i := range 40 {
		fill(t, s, "noisy-"+strconv.Itoa(i%10), i/10*2000, (i/10+1)*2000)
		if size := diskUse(t, dir); size > total || size != s.Totals().Bytes {
			t.Fatalf("%d bytes on disk, %d counted, the bound is %d", size, s.Totals().Bytes, total)
		}
	}
	if m := s.Meta()["quiet"]; m.Count != 100 {
		t.Errorf("meta is %+v, want 100 lines", m)
	}
	for i := range 10 {
		app := "noisy-" + strconv.Itoa(i)
		if m := s.Meta()[app]; m.Count+m.Expired != 8000 || m.Count < 500 || s.Position("s-"+app) != 8000 {
			t.Errorf("%s: meta is %+v, want 8000 lines in all and 500 or more kept", app, m)
		}
	}
	s.Stop()
	o.TotalBytes = total / 2
	s = open(t, dir, o)
	if size := diskUse(t, dir); size > total/2 {
		t.Errorf("%d bytes on disk after a smaller bound was set", size)
	}
	if err := s.DeleteApp("noisy-1"); err != nil {
		t.Fatal(err)
	}
	if size := diskUse(t, dir); size != s.Totals().Bytes {
		t.Errorf("%d bytes on disk, %d counted", size, s.Totals().Bytes)
	}
}
