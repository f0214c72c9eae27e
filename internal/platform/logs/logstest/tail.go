package logstest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

func testTail(s *suite) {
	store := s.open(Options{})
	write := func(from, to int) {
		var batch []platform.LogLine
		for i := from; i < to; i++ {
			if batch = append(batch, Line("a", "s", uint64(i+1), T0.Add(time.Duration(i)), strconv.Itoa(i))); len(batch) == 25 {
				Add(s, store, batch...)
				batch = batch[:0]
			}
		}
	}
	write(0, 2500)
	tail := Tail(s, store, "a", logs.Since(T0.Add(9)))
	write(2500, 3000)
	for want := 10; want < 3000; {
		b := Next(s, tail)
		if b.Missed != 0 {
			s.Fatalf("%d missed, want none", b.Missed)
		}
		for _, e := range b.Entries {
			if string(e.Text) != strconv.Itoa(want) {
				s.Fatalf("got %s, want %d", e.Text, want)
			}
			want++
		}
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := tail.Next(ctx); !errors.Is(err, context.Canceled) {
		s.Errorf("Next = %v, want Canceled", err)
	}
	tail.Close()
	if _, err := tail.Next(s.Context()); !errors.Is(err, logs.ErrClosed) {
		s.Errorf("Next after Close = %v, want ErrClosed", err)
	}
}

// A tail that was too slow is told exactly how many lines it missed, and goes on
// with the oldest that is left.
func testTailIsLate(s *suite) {
	store := s.open(Options{PerAppBytes: 256 << 10})
	tail := Tail(s, store, "a", logs.After(0))
	Fill(s, store, "a", 0, 100)
	for seen := 0; seen < 100; {
		seen += len(Next(s, tail).Entries)
	}
	const total = 20000
	Fill(s, store, "a", 100, total)
	s.settle(store)
	missed, want := uint64(0), uint64(101)
	for want <= total {
		b := Next(s, tail)
		missed += b.Missed
		if b.First != want+b.Missed {
			s.Fatalf("batch begins with %d after %d missed, want %d", b.First, b.Missed, want+b.Missed)
		}
		for i, e := range b.Entries {
			if e.Seq != b.First+uint64(i) {
				s.Fatalf("line %d has number %d", e.Seq, b.First+uint64(i))
			}
		}
		want = b.Last() + 1
	}
	if m := Meta(s, store, "a"); missed == 0 || missed != m.Expired-100 {
		s.Errorf("%d missed, %d dropped", missed, m.Expired)
	}
	store.Stop()
	if _, err := tail.Next(s.Context()); !errors.Is(err, logs.ErrStopped) {
		s.Errorf("Next after Stop = %v, want ErrStopped", err)
	}
}

// Numbers go on over restarts of the store, whatever is dropped.
func testTailContinues(s *suite) {
	o := Options{PerAppBytes: 1 << 20}
	after, lines := uint64(0), 0
	for round := range 6 {
		store := s.open(o)
		from := lines
		lines += 300 + rand.IntN(500)
		Fill(s, store, "a", from, lines)
		if round%2 == 1 {
			s.settle(store)
		}
		tail := Tail(s, store, "a", logs.After(after))
		stop := after + uint64(rand.IntN(600))
		for after < stop && after < uint64(lines) {
			b := Next(s, tail)
			if b.Missed != 0 || b.First != after+1 {
				s.Fatalf("%d missed, first %d after %d", b.Missed, b.First, after)
			}
			for i, e := range b.Entries {
				if e.Seq != b.First+uint64(i) {
					s.Fatalf("line %d has number %d", e.Seq, b.First+uint64(i))
				}
			}
			after = b.Last()
		}
		store.Stop()
	}
	store := s.open(o)
	Fill(s, store, "a", lines, lines+30000)
	s.settle(store)
	b := Next(s, Tail(s, store, "a", logs.After(after)))
	if b.Missed == 0 || b.Entries[0].Seq != after+b.Missed+1 {
		s.Errorf("%d missed after %d, then %d", b.Missed, after, b.Entries[0].Seq)
	}
}

func testTailStarts(s *suite) {
	store := s.open(Options{PerAppBytes: 128 << 10})
	Fill(s, store, "a", 0, 5000)
	s.settle(store)
	m := Meta(s, store, "a")
	oldest := m.Expired + 1
	newest := Tail(s, store, "a", logs.Newest(3))
	for name, tc := range map[string]struct {
		from logs.Start
		want uint64
	}{
		"newest 1":             {logs.Newest(1), 5000},
		"newest of all":        {logs.Newest(1 << 40), oldest},
		"after the first":      {logs.After(1), oldest},
		"after 4998":           {logs.After(4998), 4999},
		"since the very start": {logs.Since(T0.AddDate(-1, 0, 0)), oldest},
		"since ever":           {logs.Since(time.Time{}), oldest},
		"since the last but 2": {logs.Since(m.Newest.Add(-2)), 4999},
	} {
		if b := Next(s, Tail(s, store, "a", tc.from)); b.First != tc.want || b.Entries[0].Seq != tc.want {
			s.Errorf("%s: begins with %d (%d), want %d", name, b.First, b.Entries[0].Seq, tc.want)
		}
	}
	// There are no lines yet for these.
	ahead, none := Tail(s, store, "a", logs.After(1<<50)), Tail(s, store, "a", logs.Newest(0))
	if n := none.At(); n != 5000 {
		s.Errorf("a tail of new lines is at %d, want 5000", n)
	}
	Fill(s, store, "a", 5000, 5001)
	for _, tail := range []logs.Tail{ahead, none} {
		if b := Next(s, tail); len(b.Entries) != 1 || b.First != 5001 {
			s.Errorf("batch is %+v, want entry 5001 only", b)
		}
	}
	if b := Next(s, newest); b.First != 4998 {
		s.Errorf("newest 3 begins with %d, want 4998", b.First)
	}
	unknown := Tail(s, store, "unknown", logs.Newest(0))
	Fill(s, store, "unknown", 0, 1)
	if b := Next(s, unknown); b.First != 1 {
		s.Errorf("the tail of an app without lines begins with %d, want 1", b.First)
	}
}

// A hose has the lines of its apps that are written after it was opened, each once.
func testHose(s *suite) {
	store := s.open(Options{})
	testkit.Must(s, store.Start(s.Context()))
	Add(s, store, Line("a", "s-a", 1, T0, "before"))
	one, all := store.Readers().Hose([]string{"a"}, ""), store.Readers().Hose(nil, "")
	defer one.Close()
	defer all.Close()
	for i := range uint64(50) {
		Add(s, store, Line("a", "s-a", i+2, T0, "x"), Line("b", "s-b", i+1, T0, "x"))
	}
	for name, h := range map[string]*logs.Hose{"one": one, "all": all} {
		last := map[string]uint64{"a": 1}
		for last["a"] < 51 || name == "all" && last["b"] < 50 {
			lines, dropped, err := h.Next(s.Context())
			if err != nil || dropped > 0 {
				s.Fatalf("%s: %d dropped, %v, want none", name, dropped, err)
			}
			for _, l := range lines {
				if l.Seq != last[l.App]+1 || name == "one" && l.App != "a" {
					s.Fatalf("%s: line %d of %s after %d", name, l.Seq, l.App, last[l.App])
				}
				last[l.App]++
			}
		}
	}
}
