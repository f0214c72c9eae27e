package delivery

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"ingot/internal/notify"
)

func mustJournal(t testing.TB, dir string) (*journal, []int64) {
	t.Helper()
	j, numbers, err := openJournal(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.close() }) //nolint:errcheck // a test may have closed it
	return j, numbers
}

func TestJournalKeepsWhatIsNotForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, _ := mustJournal(t, dir)
	const first = 4000
	for i := range int64(first) {
		if err := j.append(i << 30); err != nil {
			t.Fatal(err)
		}
	}
	old := j.exchange()
	if old < 0 {
		t.Fatal("a file that has grown is not exchanged")
	}
	if err := j.append(-5); err != nil {
		t.Fatal(err)
	}
	if j.exchange() >= 0 {
		t.Error("exchanged while the other file is not forgotten")
	}
	if _, numbers := mustJournal(t, dir); len(numbers) != first+1 || !slices.Contains(numbers, -5) ||
		!slices.Contains(numbers, 3999<<30) {
		t.Errorf("%d numbers after a crash", len(numbers))
	}
	if err := j.forget(old); err != nil {
		t.Fatal(err)
	}
	if _, numbers := mustJournal(t, dir); !slices.Equal(numbers, []int64{-5}) {
		t.Errorf("after the commit: %v", numbers)
	}
}

func TestJournalReadsDamagedFiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		j, _, err := openJournal(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			rt.Fatal(err)
		}
		count := rapid.IntRange(1, 20).Draw(rt, "count")
		for i := range count {
			if err := j.append(int64(i)); err != nil {
				rt.Fatal(err)
			}
		}
		if err := j.close(); err != nil {
			rt.Fatal(err)
		}
		path := filepath.Join(dir, journalNames[0])
		text, err := os.ReadFile(path)
		if err != nil {
			rt.Fatal(err)
		}
		text = text[:rapid.IntRange(0, len(text)).Draw(rt, "cut")]
		whole := len(text) / record
		damaged := -1
		if len(text) > 0 && rapid.Bool().Draw(rt, "damage") {
			at := rapid.IntRange(0, len(text)-1).Draw(rt, "at")
			text[at] ^= 0x40
			damaged = at / record
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			rt.Fatal(err)
		}
		j, numbers, err := openJournal(dir, slog.New(slog.DiscardHandler))
		if err != nil {
			rt.Fatal(err)
		}
		defer j.close() //nolint:errcheck // it was only read
		var want []int64
		for i := range whole {
			if i != damaged {
				want = append(want, int64(i))
			}
		}
		if !slices.Equal(numbers, want) {
			rt.Fatalf("got %v, want %v", numbers, want)
		}
	})
}

// ledger is a store that only records outcomes.
type ledger struct {
	notify.Store
	mu   sync.Mutex
	got  []notify.Outcome
	fail func() error
	// entered is told of each call, which then waits for resume.
	entered, resume chan struct{}
}

func (l *ledger) Finish(ctx context.Context, all []notify.Outcome, _ notify.CallbackMaker) ([]notify.Claimed, error) {
	if l.entered != nil {
		l.entered <- struct{}{}
		select {
		case <-l.resume:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		if err := l.fail(); err != nil {
			return nil, err
		}
	}
	l.got = append(l.got, all...)
	return nil, nil
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.got)
}

func startFinisher(t *testing.T, l *ledger, j *journal) (f *finisher, stop func()) {
	t.Helper()
	f = newFinisher(l, j, slog.New(slog.DiscardHandler), nil)
	f.finished = func(bool, bool) {}
	ctx, cancel := context.WithCancel(context.Background())
	last, cancelLast := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); f.run(ctx, last) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended; cancelLast() })
	t.Cleanup(stop)
	return f, stop
}

func delivered(n int64) notify.Outcome {
	return notify.Outcome{Number: n, Status: notify.Delivered, Attempted: true}
}

func TestFinisherSharesCommits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, _ := mustJournal(t, dir)
	l := &ledger{}
	f, stop := startFinisher(t, l, j)
	var all sync.WaitGroup
	const workers, each = 8, 2500
	for w := range workers {
		all.Go(func() {
			for i := range each {
				f.add(delivered(int64(w*each + i)))
			}
		})
	}
	all.Wait()
	stop()
	if l.count() != workers*each {
		t.Errorf("%d outcomes recorded", l.count())
	}
	if _, numbers := mustJournal(t, dir); len(numbers) != 0 {
		t.Errorf("%d numbers left in the journal after a clean stop", len(numbers))
	}
}

func TestFinisherTriesAgain(t *testing.T) {
	t.Parallel()
	j, _ := mustJournal(t, t.TempDir())
	fails := 3
	l := &ledger{fail: func() error {
		if fails--; fails >= 0 {
			return errors.New("database is away")
		}
		return nil
	}}
	f, stop := startFinisher(t, l, j)
	f.add(delivered(1))
	f.add(notify.Outcome{Number: 2, Status: notify.Retry})
	stop() // also waits for what could not be recorded before
	if l.count() != 2 {
		t.Errorf("%d outcomes recorded, want 2", l.count())
	}
}

// A full disk makes done wait for the database.
func TestFinisherWithoutJournal(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Skip("no /dev/full here: ", err)
	}
	j, _ := mustJournal(t, t.TempDir())
	j.files[0].Close()
	j.files[0] = full
	l := &ledger{entered: make(chan struct{}), resume: make(chan struct{})}
	f, stop := startFinisher(t, l, j)
	returned := make(chan struct{})
	go func() { f.add(delivered(1)); close(returned) }()
	<-l.entered
	select {
	case <-returned:
		t.Error("done returned although neither journal nor database know of the message")
	default:
	}
	close(l.resume)
	<-returned
	if l.count() != 1 {
		t.Error("the outcome is not recorded")
	}
	l.entered = nil
	stop()
}

func TestOwnerStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := ownerOf(dir, slog.New(slog.DiscardHandler))
	if err != nil || len(first) < 16 {
		t.Fatalf("owner is %q, %v, want at least 16 characters", first, err)
	}
	if again, err := ownerOf(dir, slog.New(slog.DiscardHandler)); err != nil || again != first {
		t.Errorf("%q, %v; want %q", again, err, first)
	}
	if err := os.WriteFile(filepath.Join(dir, "owner"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := ownerOf(dir, slog.New(slog.DiscardHandler)); err != nil || other == first || len(other) < 16 {
		t.Errorf("after a damaged file: %q, %v", other, err)
	}
}
