package logstest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
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

func testContract(s *suite) {
	backgroundtest.Stress(s.T, func(t *testing.T) background.Service {
		t.Helper()
		store, err := s.at.Open(Options{})
		testkit.Must(t, err)
		return store
	})
}

func testLinesSurvive(s *suite) {
	want := []platform.LogLine{
		{App: "a", Time: T0, Source: "APP/PROC/WEB", Instance: "0", Text: []byte("one"), Stream: "s1", Seq: 1,
			Tags: map[string]string{"k": "v", "z": ""}},
		{App: "a", Time: T0.Add(1), Source: "APP/PROC/WEB", Instance: "0", Text: []byte("two\nlines \x00\xff"), Stderr: true,
			Stream: "s1", Seq: 2},
		{App: "a", Time: T0.Add(2), Source: "API", Instance: "0", Text: []byte{}},
		{App: "a", Time: T0.Add(3), Source: "RTR", Instance: "1", Text: []byte("x"), Tags: map[string]string{"k": "w"}},
	}
	store := s.open(Options{})
	Add(s, store, want[:2]...)
	Add(s, store, append([]platform.LogLine{Line("b", "s2", 1, T0, "other")}, want[2:]...)...)
	check := func(store logs.Store) {
		s.Helper()
		if got := Read(s, store, "a", logs.ReadQuery{}); !reflect.DeepEqual(got, want) {
			s.Errorf("got  %+v\nwant %+v", got, want)
		}
		if got := Texts(Read(s, store, "b", logs.ReadQuery{})); !slices.Equal(got, []string{"other"}) {
			s.Errorf("lines of b are %q, want other", got)
		}
		for stream, position := range map[string]uint64{"s1": 2, "s2": 1, "s3": 0, "": 0} {
			if got := store.Position(stream); got != position {
				s.Errorf("Position(%q) = %d, want %d", stream, got, position)
			}
		}
	}
	check(store)
	store.Stop()
	if err := store.Append(want[0]); !errors.Is(err, logs.ErrStopped) {
		s.Errorf("Append after Stop: %v, want ErrStopped", err)
	}
	if _, err := store.Read(s.Context(), "a", logs.ReadQuery{}); !errors.Is(err, logs.ErrStopped) {
		s.Errorf("Read after Stop: %v, want ErrStopped", err)
	}
	store = s.open(Options{})
	check(store)
	Add(s, store, want[:2]...) // appended again: already stored
	check(store)
	s.settle(store)
	check(store)
	Add(s, store, Line("a", "s1", 3, T0.Add(10), "three"))
	if got := Texts(Read(s, store, "a", logs.ReadQuery{Descending: true, Limit: 1})); !slices.Equal(got,
		[]string{"three"}) {
		s.Errorf("newest line is %q, want three", got)
	}
}

func testReadRanges(s *suite) {
	store := s.open(Options{PerAppBytes: 512 << 10})
	var want []string
	var batch []platform.LogLine
	for i := range 3000 {
		text := fmt.Sprintf("line %06d", i)
		want = append(want, text)
		if batch = append(batch, Line("a", "s", uint64(i+1), T0.Add(time.Duration(i)), text)); len(batch) == 15 {
			Add(s, store, batch...)
			batch = batch[:0]
		}
		if i == 1000 {
			s.settle(store)
		}
	}
	ns := T0.UnixNano()
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
		"newest in range": {logs.ReadQuery{Descending: true, Start: ns + 10, End: ns + 100, Limit: 2},
			[]string{want[99], want[98]}},
		"huge negative": {logs.ReadQuery{Start: -6795364578871345152, Limit: 1, Descending: true}, want[2999:]},
		"none found":    {logs.ReadQuery{Start: ns + 3000}, []string{}},
		"logs":          {logs.ReadQuery{Types: []string{"GAUGE", "LOG"}, Limit: 1}, want[:1]},
		"no logs":       {logs.ReadQuery{Types: []string{"GAUGE"}}, []string{}},
	} {
		if got := Texts(Read(s, store, "a", tc.q)); !slices.Equal(got, tc.want) {
			s.Errorf("%s: %d lines, want %d: %.100q", name, len(got), len(tc.want), got)
		}
	}
	for _, limit := range []int{7, 1000} {
		if got := Texts(ReadAll(s, store, "a", limit)); !slices.Equal(got, want) {
			s.Errorf("walked %d lines by %d, want %d", len(got), limit, len(want))
		}
	}
	if got := Read(s, store, "unknown", logs.ReadQuery{}); len(got) != 0 {
		s.Errorf("an unknown app has lines: %+v", got)
	}
}

// Streams that are late, repeat times or go back lose and repeat nothing for a
// client that walks, and keep their order.
func testOrder(s *suite) {
	store := s.open(Options{PerAppBytes: 1 << 20})
	const streams, lines = 5, 1000
	next := make([]int, streams)
	for {
		var batch []platform.LogLine
		for range 1 + rand.IntN(60) {
			n := rand.IntN(streams)
			if next[n] == lines {
				continue
			}
			next[n]++
			// A coarse clock that sometimes goes back, and stream 4 is far behind.
			at := T0.Add(time.Duration(next[n]/10) * time.Millisecond)
			if n == 4 {
				at = at.Add(-time.Hour)
			}
			if rand.IntN(20) == 0 {
				at = at.Add(-5 * time.Millisecond)
			}
			batch = append(batch, Line("a", "s"+strconv.Itoa(n), uint64(next[n]), at, fmt.Sprint(n, " ", next[n])))
		}
		Add(s, store, batch...)
		if slices.Min(next) == lines {
			break
		}
	}
	for _, limit := range []int{7, 100, 1000} {
		got := ReadAll(s, store, "a", limit)
		if len(got) != streams*lines {
			s.Fatalf("limit %d: %d lines, want %d", limit, len(got), streams*lines)
		}
		seqs := map[string]uint64{}
		for i, e := range got {
			if i > 0 && e.Time.Before(got[i-1].Time) {
				s.Fatalf("limit %d: times go back at %d", limit, i)
			}
			if e.Seq != seqs[e.Stream]+1 {
				s.Fatalf("limit %d: stream %s: %d after %d", limit, e.Stream, e.Seq, seqs[e.Stream])
			}
			seqs[e.Stream] = e.Seq
		}
	}
}

func testTimesAreBelievable(s *suite) {
	store := s.open(Options{})
	before := time.Now()
	Add(s, store, Line("a", "s", 1, before.Add(100*time.Hour), "future"), platform.LogLine{App: "a", Source: "API",
		Text: []byte("no time")})
	for _, e := range Read(s, store, "a", logs.ReadQuery{}) {
		if e.Time.Before(before) || e.Time.After(time.Now()) {
			s.Errorf("%s is at %v, want now", e.Text, e.Time)
		}
	}
}

func testShareIsKept(s *suite) {
	o := Options{PerAppBytes: 256 << 10}
	store := s.open(o)
	Add(s, store, Line("a", "quiet", 7, T0, "said once"))
	const total = 20000
	for i := 0; i < total; i += 100 {
		var batch []platform.LogLine
		for j := range 100 {
			batch = append(batch, Line("a", "loud", uint64(i+j+1), T0.Add(time.Duration(i+j)), fmt.Sprintf("%050d", i+j)))
		}
		Add(s, store, batch...)
		if i == total/2 {
			s.settle(store)
		}
	}
	s.settle(store)
	check := func(store logs.Store) {
		s.Helper()
		m := Meta(s, store, "a")
		if m.Count+m.Expired != total+1 || m.Count < 2000 || m.Expired == 0 || m.Bytes > o.PerAppBytes {
			s.Errorf("meta is %+v, want %d lines in all, 2000 or more of them kept in %d bytes", m, total+1, o.PerAppBytes)
		}
		got := ReadAll(s, store, "a", 1000)
		if uint64(len(got)) != m.Count || !got[0].Time.Equal(m.Oldest) || !got[len(got)-1].Time.Equal(m.Newest) {
			s.Errorf("%d lines from %v to %v, meta %+v", len(got), got[0].Time, got[len(got)-1].Time, m)
		}
		if last := string(got[len(got)-1].Text); last != fmt.Sprintf("%050d", total-1) {
			s.Errorf("the last line is %s, want %d", last, total-1)
		}
		if store.Position("quiet") != 7 || store.Position("loud") != total {
			s.Errorf("positions are %d and %d, want 7 and %d", store.Position("quiet"), store.Position("loud"), total)
		}
	}
	check(store)
	store.Stop()
	store = s.open(o)
	check(store)
	store.Forget("quiet")
	if n := store.Position("quiet"); n != 0 {
		s.Errorf("a forgotten stream is at %d, want 0", n)
	}
}

// testForgottenAtOnce asks for positions while they are being dropped.
func testForgottenAtOnce(s *suite) {
	store := s.open(Options{})
	for i := range 50 {
		stream := fmt.Sprint("stream", i)
		Add(s, store, Line("a", stream, 7, T0, "said once"))
		store.Forget(stream)
		for range 3 {
			if n := store.Position(stream); n != 0 {
				s.Fatalf("forgotten stream %d is at %d, want 0", i, n)
			}
		}
	}
}

// noise appends lines that cannot be compressed.
func noise(t testing.TB, s logs.Store, app string, from, to int) {
	t.Helper()
	var batch []platform.LogLine
	for ; from < to; from++ {
		text := make([]byte, 64)
		for i := range text {
			text[i] = byte(rand.Uint32())
		}
		batch = append(batch, Line(app, "s-"+app, uint64(from+1), T0, string(text)))
	}
	for part := range slices.Chunk(batch, 100) {
		Add(t, s, part...)
	}
}

// All apps together stay within the limit; the app with the least keeps all its lines.
func testTotalIsKept(s *suite) {
	const total = 2 << 20
	o := Options{PerAppBytes: 1 << 20, TotalBytes: total}
	store := s.open(o)
	Fill(s, store, "quiet", 0, 100)
	for i := range 40 {
		noise(s, store, "noisy-"+strconv.Itoa(i%10), i/10*2000, (i/10+1)*2000)
		if i%10 == 9 {
			s.settle(store)
		}
	}
	if n := store.Totals().Bytes; n > total || n < total/4 {
		s.Errorf("%d bytes are stored, want %d at most and not much less", n, total)
	}
	if m := Meta(s, store, "quiet"); m.Count != 100 {
		s.Errorf("meta is %+v, want 100 lines", m)
	}
	for i := range 10 {
		app := "noisy-" + strconv.Itoa(i)
		if m := Meta(s, store, app); m.Count+m.Expired != 8000 || m.Count < 500 || store.Position("s-"+app) != 8000 {
			s.Errorf("%s: meta is %+v, position %d, want 8000 lines in all and 500 or more kept", app, m,
				store.Position("s-"+app))
		}
	}
	store.Stop()
	o.TotalBytes = total / 2
	store = s.open(o)
	s.settle(store)
	if n := store.Totals().Bytes; n > total/2 {
		s.Errorf("%d bytes are stored after a smaller limit was set, want %d at most", n, total/2)
	}
}

func testLargeBatch(s *suite) {
	store := s.open(Options{PerAppBytes: 1 << 20})
	var batch []platform.LogLine
	for i := range 5000 {
		batch = append(batch, Line("a", "s", uint64(i+1), T0, fmt.Sprintf("%0100d", i)))
	}
	batch = append(batch, Line("a", "s", 5001, T0, strings.Repeat("long", 300<<10)))
	Add(s, store, batch...)
	store.Stop()
	store = s.open(Options{PerAppBytes: 1 << 20})
	got := ReadAll(s, store, "a", 1000)
	if store.Position("s") != 5001 || len(got) == 0 {
		s.Fatalf("position %d, %d lines, want 5001 and some", store.Position("s"), len(got))
	}
	for i := range got[1:] {
		if got[i+1].Seq != got[i].Seq+1 {
			s.Fatalf("%d after %d", got[i+1].Seq, got[i].Seq)
		}
	}
	if last := got[len(got)-1]; !bytes.HasSuffix(last.Text, []byte("bytes cut)")) || len(last.Text) > 1<<20+100 {
		s.Errorf("a huge line has %d bytes and ends in %q", len(last.Text), last.Text[len(last.Text)-30:])
	}
}

func testRefusals(s *suite) {
	store := s.open(Options{})
	for _, app := range []string{"", ".", "..", "../x", "a/b", ".deleted-a", strings.Repeat("a", 129), "a\x00"} {
		if err := store.Append(Line(app, "", 0, T0, "x")); err == nil {
			s.Errorf("app %q was accepted", app)
		}
	}
	Add(s, store, Line("a", "s", 1, T0, "x"))
	for name, bad := range map[string]platform.LogLine{
		"a stream of another app":   Line("b", "s", 2, T0, "not mine"),
		"a long instance":           {App: "b", Instance: strings.Repeat("9", 65)},
		"a stream that is not text": Line("b", "\xff", 1, T0, "x"),
	} {
		if err := store.Append(bad, Line("b", "t-"+name, 1, T0, name)); err == nil {
			s.Errorf("%s was accepted", name)
		}
	}
	if got := Read(s, store, "b", logs.ReadQuery{}); len(got) != 3 {
		s.Errorf("b has %q, want the three good lines", Texts(got))
	}
}

// Positions are limited too: the streams that were quiet longest are forgotten.
func testManyStreams(s *suite) {
	o := Options{PerAppBytes: 64 << 10}
	store := s.open(o)
	var batch []platform.LogLine
	for i := range 1500 {
		if batch = append(batch, Line("a", "s"+strconv.Itoa(i), 1, T0.Add(time.Duration(i)), "x")); len(batch) == 20 {
			Add(s, store, batch...)
			batch = batch[:0]
		}
	}
	check := func(store logs.Store) {
		s.Helper()
		if first, last := store.Position("s0"), store.Position("s1499"); first != 0 || last != 1 {
			s.Errorf("positions of the first and the last stream are %d and %d, want 0 and 1", first, last)
		}
	}
	s.settle(store)
	check(store)
	store.Stop()
	check(s.open(o))
}

// A write that fails leaves everything as it was, and the next one works.
func testFailedWrite(s *suite) {
	store := s.open(Options{PerAppBytes: 1 << 20})
	mend, err := s.at.Break()
	testkit.Must(s, err)
	line := Line("a", "s", 1, T0, "x")
	for range 2 {
		if err := store.Append(line); err == nil {
			s.Fatal("Append returned nil, want an error")
		}
	}
	mend()
	if n := store.Position("s"); n != 0 {
		s.Fatalf("position is %d after failed writes, want 0", n)
	}
	Add(s, store, line)
	if got := Texts(Read(s, store, "a", logs.ReadQuery{})); !slices.Equal(got, []string{"x"}) || store.Position("s") != 1 {
		s.Errorf("lines are %q, position %d, want x and 1", got, store.Position("s"))
	}
}

func testDeleteApp(s *suite) {
	store := s.open(Options{})
	Add(s, store, Line("a", "s", 5, T0, "x"), Line("b", "t", 1, T0, "y"))
	s.settle(store)
	Add(s, store, Line("a", "s", 6, T0, "x"))
	tail := Tail(s, store, "a", logs.Newest(0))
	for range 2 {
		testkit.Must(s, store.DeleteApp("a"))
	}
	all, err := store.Meta(s.Context())
	if n := store.Position("s"); n != 0 || err != nil || len(Read(s, store, "a", logs.ReadQuery{})) != 0 || len(all) != 1 {
		s.Errorf("after the deletion: position %d, %v, meta %+v; want only b", n, err, all)
	}
	if _, err := tail.Next(s.Context()); !errors.Is(err, logs.ErrClosed) {
		s.Errorf("its tail: %v, want ErrClosed", err)
	}
	Add(s, store, Line("a", "s", 1, T0, "again"))
	if b := Next(s, Tail(s, store, "a", logs.After(0))); b.First != 1 || len(b.Entries) != 1 {
		s.Errorf("the new log starts with %+v, want line 1", b)
	}
	store.Stop()
	store = s.open(Options{})
	if got := Texts(Read(s, store, "a", logs.ReadQuery{})); !slices.Equal(got, []string{"again"}) {
		s.Errorf("lines after the deletion are %q, want again", got)
	}
}

// Losses are added up by stream and app, once each, and outlive the process and
// the lines that tell of them.
func testLosses(s *suite) {
	o := Options{PerAppBytes: 128 << 10}
	store := s.open(o)
	loss := Line("a", "s-a", 1, T0, "7 lines were lost")
	loss.Source, loss.Lost = logs.SourceLogs, 7
	own := platform.LogLine{App: "a", Source: logs.SourceLogs, Lost: 3, Text: []byte("3 more")}
	Add(s, store, loss, own)
	Add(s, store, loss) // appended again
	check := func(store logs.Store) {
		s.Helper()
		if lost := store.Lost("s-a", "other"); lost["s-a"] != 7 || lost["other"] != 0 || Meta(s, store, "a").Lost != 10 {
			s.Errorf("lost lines of streams %v, meta %+v, want 7 of the stream and 10 in all", lost, Meta(s, store, "a"))
		}
	}
	check(store)
	store.Stop()
	store = s.open(o)
	check(store)
	Fill(s, store, "a", 1, 6000)
	s.settle(store)
	check(store)
	if n := Meta(s, store, "a").Expired; n < 10 {
		s.Fatalf("%d lines have expired, want 10 or more", n)
	}
	store.Stop()
	check(s.open(o))
}

// What could not be written is reported as soon as writing works again.
func testLossesAreReported(s *suite) {
	store := s.open(Options{})
	mend, err := s.at.Break()
	testkit.Must(s, err)
	own := platform.LogLine{App: "a", Source: "RTR", Instance: "0", Text: []byte("x")}
	for range 3 {
		_ = store.Tell(own, own) // a store that stores them later returns nil
	}
	testkit.Eventually(s, "6 lines are lost", func() bool { return Meta(s, store, "a").Lost == 6 })
	mend()
	Add(s, store, own)
	got := Read(s, store, "a", logs.ReadQuery{})
	want := []string{"6 lines about this app were lost: they could not be written to its log", "x"}
	if !slices.Equal(Texts(got), want) || got[0].Source != "LGR" || Meta(s, store, "a").Lost != 6 ||
		store.Totals().Lost != 6 {
		s.Errorf("lines are %q, meta %+v, want %q and 6 lost", Texts(got), Meta(s, store, "a"), want)
	}
}

// Writers, readers, tails and deletions at once: what a writer was told is
// stored is stored, in order.
func testConcurrent(s *suite) {
	store := s.open(Options{})
	testkit.Must(s, store.Start(s.Context()))
	const apps, lines, each = 6, 600, 4
	done := make(chan struct{})
	var writers, others sync.WaitGroup
	for n := range apps {
		app := "app-" + strconv.Itoa(n)
		for w := range 2 {
			writers.Go(func() {
				stream := fmt.Sprintf("%s-%d", app, w)
				for i := uint64(0); i < lines; i += each {
					var batch []platform.LogLine
					for j := range uint64(each) {
						l := Line(app, stream, i+j+1, time.Now(), strconv.FormatUint(i+j, 10))
						batch = append(batch, l, l)
					}
					if err := store.Append(batch...); err != nil {
						s.Error(err)
					}
					if n := store.Position(stream); n != i+each {
						s.Errorf("position %d, want %d", n, i+each)
					}
				}
			})
		}
		others.Go(func() {
			tail, err := store.Tail(app, logs.After(0))
			if err != nil {
				s.Error(err)
				return
			}
			defer tail.Close()
			for got := uint64(0); got < 2*lines; {
				b, err := tail.Next(s.Context())
				if err != nil || b.Missed > 0 || b.First != got+1 {
					s.Errorf("%s: first %d after %d, %d missed, %v", app, b.First, got, b.Missed, err)
					return
				}
				got += uint64(len(b.Entries))
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
			if _, err := store.Read(s.Context(), "app-1",
				logs.ReadQuery{Limit: 1000, Descending: rand.IntN(2) == 0}); err != nil {
				s.Error(err)
			}
			if _, err := store.Meta(s.Context()); err != nil {
				s.Error(err)
			}
			_ = store.Append(Line("doomed", "", 0, time.Now(), "x"))
			if err := store.DeleteApp("doomed"); err != nil {
				s.Error(err)
			}
			if err := s.at.Settle(store); err != nil {
				s.Error(err)
			}
		}
	})
	writers.Wait()
	close(done)
	others.Wait()
	for n := range apps {
		if got := ReadAll(s, store, "app-"+strconv.Itoa(n), 100); len(got) != 2*lines {
			s.Errorf("app %d has %d lines, want %d", n, len(got), 2*lines)
		}
	}
}
