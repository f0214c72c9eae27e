package logs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t testing.TB, dir string, o logs.Options) *logs.Store {
	t.Helper()
	s, err := logs.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func add(t testing.TB, s *logs.Store, entries ...platform.LogLine) {
	t.Helper()
	if err := s.Append(entries...); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, s *logs.Store, app string, q logs.ReadQuery) []platform.LogLine {
	t.Helper()
	got, err := s.Read(app, q)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// readAll reads as the cf client does: on from the last time plus 1 ns.
func readAll(t testing.TB, s *logs.Store, app string, limit int) []platform.LogLine {
	t.Helper()
	var all []platform.LogLine
	start := int64(math.MinInt64)
	for {
		page := read(t, s, app, logs.ReadQuery{Start: start, Limit: limit})
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		start = page[len(page)-1].Time.UnixNano() + 1
	}
}

func texts(entries []platform.LogLine) []string {
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = string(e.Text)
	}
	return out
}

func line(app, stream string, seq uint64, at time.Time, text string) platform.LogLine {
	return platform.LogLine{App: app, Time: at, Source: "APP/PROC/WEB", Instance: "0", Text: []byte(text), Stream: stream, Seq: seq}
}

func TestContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		s, err := logs.Open(t.TempDir(), logs.Options{IdleAfter: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestEntriesSurvive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := []platform.LogLine{
		{App: "a", Time: t0, Source: "APP/PROC/WEB", Instance: "0", Text: []byte("one"), Stream: "s1", Seq: 1, Tags: map[string]string{"k": "v", "z": ""}},
		{App: "a", Time: t0.Add(1), Source: "APP/PROC/WEB", Instance: "0", Text: []byte("two\nlines \x00\xff"), Stderr: true, Stream: "s1", Seq: 2},
		{App: "a", Time: t0.Add(2), Source: "API", Instance: "0", Text: []byte{}},
		{App: "a", Time: t0.Add(3), Source: "RTR", Instance: "1", Text: []byte("x"), Tags: map[string]string{"k": "w"}},
	}
	s := open(t, dir, logs.Options{})
	add(t, s, want[:2]...)
	add(t, s, append([]platform.LogLine{line("b", "s2", 1, t0, "other")}, want[2:]...)...)
	check := func(s *logs.Store) {
		t.Helper()
		got := read(t, s, "a", logs.ReadQuery{})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if got := texts(read(t, s, "b", logs.ReadQuery{})); !slices.Equal(got, []string{"other"}) {
			t.Errorf("b: %q", got)
		}
		for stream, position := range map[string]uint64{"s1": 2, "s2": 1, "s3": 0, "": 0} {
			if got := s.Position(stream); got != position {
				t.Errorf("Position(%q) = %d, want %d", stream, got, position)
			}
		}
	}
	check(s)
	s.Stop()
	if err := s.Append(want[0]); !errors.Is(err, logs.ErrStopped) {
		t.Errorf("Append after Stop: %v", err)
	}
	if _, err := s.Read("a", logs.ReadQuery{}); !errors.Is(err, logs.ErrStopped) {
		t.Errorf("Read after Stop: %v", err)
	}
	s = open(t, dir, logs.Options{})
	check(s)
	add(t, s, want[:2]...) // appended again: already stored
	check(s)
	add(t, s, line("a", "s1", 3, t0.Add(10), "three"))
	if got := texts(read(t, s, "a", logs.ReadQuery{Descending: true, Limit: 1})); !slices.Equal(got, []string{"three"}) {
		t.Errorf("newest %q", got)
	}
	testkit.CheckMode(t, filepath.Join(dir, "a"), 0o700)
}

func TestReadRanges(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), logs.Options{PerAppBytes: 512 << 10}) // segments of 16 KiB
	var want []string
	for i := range 3000 {
		text := fmt.Sprintf("line %06d", i)
		want = append(want, text)
		add(t, s, line("a", "s", uint64(i+1), t0.Add(time.Duration(i)), text))
	}
	ns := t0.UnixNano()
	reverse := slices.Clone(want)
	slices.Reverse(reverse)
	for name, tc := range map[string]struct {
		q    logs.ReadQuery
		want []string
	}{
		"default":         {logs.ReadQuery{}, want[:100]},
		"start inclusive": {logs.ReadQuery{Start: ns + 1500, Limit: 3}, want[1500:1503]},
		"end exclusive":   {logs.ReadQuery{Start: ns + 1500, End: ns + 1502, Limit: 9}, want[1500:1502]},
		"limit capped":    {logs.ReadQuery{Limit: 5000}, want[:1000]},
		"newest":          {logs.ReadQuery{Descending: true, Limit: 1000}, reverse[:1000]},
		"newest in range": {logs.ReadQuery{Descending: true, Start: ns + 10, End: ns + 100, Limit: 2}, []string{want[99], want[98]}},
		"huge negative":   {logs.ReadQuery{Start: -6795364578871345152, Limit: 1, Descending: true}, want[2999:]},
		"nothing there":   {logs.ReadQuery{Start: ns + 3000}, []string{}},
		"logs":            {logs.ReadQuery{Types: []string{"GAUGE", "LOG"}, Limit: 1}, want[:1]},
		"no logs":         {logs.ReadQuery{Types: []string{"GAUGE"}}, []string{}},
	} {
		if got := texts(read(t, s, "a", tc.q)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %d lines, want %d: %.100q", name, len(got), len(tc.want), got)
		}
	}
	if got := texts(readAll(t, s, "a", 7)); !slices.Equal(got, want) {
		t.Errorf("walked %d lines, want %d", len(got), len(want))
	}
	if got := read(t, s, "unknown", logs.ReadQuery{}); len(got) != 0 {
		t.Errorf("an unknown app has lines: %+v", got)
	}
}

// Streams that are late, repeat times or go back lose and repeat nothing for a
// client that walks, and keep their order.
func TestOrder(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), logs.Options{PerAppBytes: 1 << 20})
	const streams, lines = 5, 1000
	next := make([]int, streams)
	for {
		var batch []platform.LogLine
		for range 1 + rand.IntN(20) {
			n := rand.IntN(streams)
			if next[n] == lines {
				continue
			}
			next[n]++
			// A coarse clock that sometimes goes back, and stream 4 is far behind.
			at := t0.Add(time.Duration(next[n]/10) * time.Millisecond)
			if n == 4 {
				at = at.Add(-time.Hour)
			}
			if rand.IntN(20) == 0 {
				at = at.Add(-5 * time.Millisecond)
			}
			batch = append(batch, line("a", "s"+strconv.Itoa(n), uint64(next[n]), at, fmt.Sprint(n, " ", next[n])))
		}
		add(t, s, batch...)
		if slices.Min(next) == lines {
			break
		}
	}
	for _, limit := range []int{7, 100, 1000} {
		got := readAll(t, s, "a", limit)
		if len(got) != streams*lines {
			t.Fatalf("limit %d: %d lines, want %d", limit, len(got), streams*lines)
		}
		seqs := map[string]uint64{}
		for i, e := range got {
			if i > 0 && e.Time.Before(got[i-1].Time) {
				t.Fatalf("limit %d: times go back at %d", limit, i)
			}
			if e.Seq != seqs[e.Stream]+1 {
				t.Fatalf("limit %d: stream %s: %d after %d", limit, e.Stream, e.Seq, seqs[e.Stream])
			}
			seqs[e.Stream] = e.Seq
		}
	}
}

func TestTimesAreBelievable(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), logs.Options{})
	before := time.Now()
	add(t, s, line("a", "s", 1, before.Add(100*time.Hour), "future"), platform.LogLine{App: "a", Source: "API", Text: []byte("no time")})
	for _, e := range read(t, s, "a", logs.ReadQuery{}) {
		if e.Time.Before(before) || e.Time.After(time.Now()) {
			t.Errorf("%s at %v", e.Text, e.Time)
		}
	}
}

func TestShareIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const share = 256 << 10
	o := logs.Options{PerAppBytes: share}
	s := open(t, dir, o)
	add(t, s, line("a", "quiet", 7, t0, "said once"))
	const total = 20000
	for i := 0; i < total; i += 100 {
		var batch []platform.LogLine
		for j := range 100 {
			batch = append(batch, line("a", "loud", uint64(i+j+1), t0.Add(time.Duration(i+j)), fmt.Sprintf("%050d", i+j)))
		}
		add(t, s, batch...)
		if size := diskUse(t, dir); size > share+4<<10 {
			t.Fatalf("%d bytes on disk, the share is %d", size, share)
		}
	}
	check := func(s *logs.Store) {
		t.Helper()
		m := s.Meta()["a"]
		if m.Count+m.Expired != total+1 || m.Count < 2000 || m.Expired == 0 {
			t.Errorf("meta %+v", m)
		}
		got := readAll(t, s, "a", 1000)
		if uint64(len(got)) != m.Count || !got[0].Time.Equal(m.Oldest) || !got[len(got)-1].Time.Equal(m.Newest) {
			t.Errorf("%d lines from %v to %v, meta %+v", len(got), got[0].Time, got[len(got)-1].Time, m)
		}
		if last := string(got[len(got)-1].Text); last != fmt.Sprintf("%050d", total-1) {
			t.Errorf("the last line is %s", last)
		}
		if s.Position("quiet") != 7 || s.Position("loud") != total {
			t.Errorf("positions %d, %d", s.Position("quiet"), s.Position("loud"))
		}
	}
	check(s)
	s.Stop()
	s = open(t, dir, o)
	check(s)
	s.Forget("quiet")
	if s.Position("quiet") != 0 {
		t.Error("forgotten streams have no position")
	}
}

func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

func TestBatchOverManySegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, logs.Options{PerAppBytes: 1 << 20})
	var batch []platform.LogLine
	for i := range 5000 {
		batch = append(batch, line("a", "s", uint64(i+1), t0, fmt.Sprintf("%0100d", i)))
	}
	batch = append(batch, line("a", "s", 5001, t0, strings.Repeat("long", 300<<10)))
	add(t, s, batch...)
	s.Stop()
	s = open(t, dir, logs.Options{PerAppBytes: 1 << 20})
	got := readAll(t, s, "a", 1000)
	if s.Position("s") != 5001 || len(got) == 0 {
		t.Fatalf("position %d, %d lines", s.Position("s"), len(got))
	}
	for i := range got[1:] {
		if got[i+1].Seq != got[i].Seq+1 {
			t.Fatalf("%d after %d", got[i+1].Seq, got[i].Seq)
		}
	}
	if last := got[len(got)-1]; !bytes.HasSuffix(last.Text, []byte("bytes cut)")) || len(last.Text) > 1<<20+100 {
		t.Errorf("a huge line has %d bytes and ends in %q", len(last.Text), last.Text[len(last.Text)-30:])
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, logs.Options{})
	for _, app := range []string{"", ".", "..", "../x", "a/b", ".deleted-a", strings.Repeat("a", 129), "a\x00"} {
		if err := s.Append(line(app, "", 0, t0, "x")); err == nil {
			t.Errorf("app %q was accepted", app)
		}
	}
	add(t, s, line("a", "s", 1, t0, "x"))
	err := s.Append(line("b", "s", 2, t0, "not mine"), line("b", "t", 1, t0, "mine"), platform.LogLine{App: "b", Instance: strings.Repeat("9", 65)})
	if err == nil {
		t.Error("a stream of another app and a long instance were accepted")
	}
	if got := texts(read(t, s, "b", logs.ReadQuery{})); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("b has %q", got)
	}
}

// A write that fails leaves everything as it was, and the next one works.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, logs.Options{OpenFiles: 0, PerAppBytes: 1 << 20})
	// A file where the folder should be.
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e := line("a", "s", 1, t0, "x")
	for range 2 {
		if err := s.Append(e); err == nil {
			t.Fatal("no error")
		}
		if s.Position("s") != 0 || len(s.Meta()) != 0 {
			t.Fatal("a failed write counts")
		}
	}
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	add(t, s, e)
	if got := texts(read(t, s, "a", logs.ReadQuery{})); !slices.Equal(got, []string{"x"}) || s.Position("s") != 1 {
		t.Errorf("%q, position %d", got, s.Position("s"))
	}
}

// Positions are bounded too: the streams that were quiet longest are forgotten.
func TestManyStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := logs.Options{PerAppBytes: 64 << 10}
	s := open(t, dir, o)
	for i := range 500 {
		add(t, s, line("a", "s"+strconv.Itoa(i), 1, t0.Add(time.Duration(i)), "x"))
	}
	check := func(s *logs.Store) {
		t.Helper()
		if s.Position("s0") != 0 || s.Position("s499") != 1 || s.Position("s480") != 1 {
			t.Errorf("positions %d, %d, %d", s.Position("s0"), s.Position("s480"), s.Position("s499"))
		}
	}
	check(s)
	s.Stop()
	check(open(t, dir, o))
}

func TestDeleteApp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, logs.Options{})
	add(t, s, line("a", "s", 5, t0, "x"), line("b", "t", 1, t0, "y"))
	tail, err := s.Tail("a", logs.Since(t0))
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	for range 2 {
		if err := s.DeleteApp("a"); err != nil {
			t.Fatal(err)
		}
	}
	if s.Position("s") != 0 || len(read(t, s, "a", logs.ReadQuery{})) != 0 || len(s.Meta()) != 1 {
		t.Error("a deleted app is still there")
	}
	if _, err := tail.Next(t.Context()); !errors.Is(err, logs.ErrClosed) {
		t.Errorf("its tail: %v", err)
	}
	// What a crash left of a deletion goes when the store opens.
	if err := os.Mkdir(filepath.Join(dir, ".deleted-c"), 0o700); err != nil {
		t.Fatal(err)
	}
	add(t, s, line("a", "s", 1, t0, "again"))
	s.Stop()
	s = open(t, dir, logs.Options{})
	if got := texts(read(t, s, "a", logs.ReadQuery{})); !slices.Equal(got, []string{"again"}) {
		t.Errorf("after the deletion: %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, ".deleted-c")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover: %v", err)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), logs.Options{})
	for i := range 2500 {
		add(t, s, line("a", "s", uint64(i+1), t0.Add(time.Duration(i)), strconv.Itoa(i)))
	}
	tail, err := s.Tail("a", logs.Since(t0.Add(9)))
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	for i := 2500; i < 3000; i++ {
		add(t, s, line("a", "s", uint64(i+1), t0.Add(time.Duration(i)), strconv.Itoa(i)))
	}
	for want := 10; want < 3000; {
		b, err := tail.Next(t.Context())
		if err != nil || b.Missed != 0 {
			t.Fatalf("%v, %d missed", err, b.Missed)
		}
		for _, e := range b.Entries {
			if string(e.Text) != strconv.Itoa(want) {
				t.Fatalf("got %s, want %d", e.Text, want)
			}
			want++
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tail.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next = %v", err)
	}
	tail.Close()
	if _, err := tail.Next(t.Context()); !errors.Is(err, logs.ErrClosed) {
		t.Errorf("Next after Close = %v", err)
	}
}

// Writers, readers, tails and deletions at once: what a writer was told is
// there is there, in order.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), logs.Options{OpenFiles: 2, IdleAfter: time.Millisecond, MemoryBytes: 1 << 20})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	const apps, lines = 6, 600
	done := make(chan struct{})
	var writers, others sync.WaitGroup
	for n := range apps {
		app := "app-" + strconv.Itoa(n)
		for w := range 2 {
			writers.Go(func() {
				stream := fmt.Sprintf("%s-%d", app, w)
				for i := range lines {
					e := line(app, stream, uint64(i+1), time.Now(), strconv.Itoa(i))
					if err := s.Append(e, e); err != nil {
						t.Error(err)
					}
					if s.Position(stream) != uint64(i+1) {
						t.Errorf("position %d after %d", s.Position(stream), i+1)
					}
				}
			})
		}
		others.Go(func() {
			tail, err := s.Tail(app, logs.After(0))
			if err != nil {
				t.Error(err)
				return
			}
			defer tail.Close()
			for got := uint64(0); got < 2*lines; {
				b, err := tail.Next(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				got += uint64(len(b.Entries)) + b.Missed
			}
		})
	}
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.Read("app-1", logs.ReadQuery{Limit: 1000, Descending: rand.IntN(2) == 0}); err != nil {
				t.Error(err)
			}
			s.Meta()
			_ = s.Append(line("doomed", "", 0, time.Now(), "x"))
			if err := s.DeleteApp("doomed"); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Wait()
	close(done)
	others.Wait()
	for n := range apps {
		if got := readAll(t, s, "app-"+strconv.Itoa(n), 100); len(got) != 2*lines {
			t.Errorf("app %d has %d lines", n, len(got))
		}
	}
}
