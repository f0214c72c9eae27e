package logdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logdb"
	"ingot/internal/platform/logs/logstest"
)

// start opens a store as another server would, and starts it.
func start(t *testing.T, url string, o logdb.Options) *logdb.Store {
	t.Helper()
	s, err := logdb.Open(t.Context(), dbtest.Open(t, url), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// patient polls so rarely that only notifications can be the reason for what is seen.
func patient() logdb.Options {
	return logdb.Options{FlushEvery: time.Millisecond, PollEvery: time.Hour}
}

// What one server stores, another one reads, tails and streams.
func TestServersShareLines(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t, db.Postgres)
	a, b := start(t, url, patient()), start(t, url, patient())
	testkit.Eventually(t, "both servers listen", func() bool { return a.Listening() && b.Listening() })
	tail := logstest.Tail(t, b, "a", logs.Newest(0))
	hose := b.Readers().Hose(nil, "")
	defer hose.Close()
	logstest.Fill(t, a, "a", 0, 500)
	for next := uint64(1); next <= 500; {
		batch := logstest.Next(t, tail)
		if batch.First != next || batch.Missed != 0 {
			t.Fatalf("batch begins with %d, %d missed, want %d", batch.First, batch.Missed, next)
		}
		next = batch.Last() + 1
	}
	for seen := uint64(0); seen < 500; {
		lines, dropped, err := hose.Next(t.Context())
		if err != nil || dropped > 0 {
			t.Fatalf("%d lines dropped, %v, want none", dropped, err)
		}
		for _, l := range lines {
			if seen++; l.Seq != seen {
				t.Fatalf("line %d of the hose is %d", seen, l.Seq)
			}
		}
	}
	if n := b.Position("s-a"); n != 500 {
		t.Errorf("position on the other server is %d, want 500", n)
	}
	if got := logstest.ReadAll(t, b, "a", 1000); len(got) != 500 {
		t.Errorf("the other server reads %d lines, want 500", len(got))
	}
	if err := a.DeleteApp("a"); err != nil {
		t.Fatal(err)
	}
	if batch, err := tail.Next(t.Context()); !errors.Is(err, logs.ErrClosed) {
		t.Errorf("the tail after the deletion: %+v, %v, want ErrClosed", batch, err)
	}
}

// A hose has the lines that were stored after it was opened, also if the server looked at all apps
// before it was told of them.
func TestHoseBeforeNotification(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t, db.Postgres)
	a, o := start(t, url, patient()), patient()
	var received func(string)
	var connected func(bool)
	o.Subscribe = func(r func(string), c func(bool)) { received, connected = r, c }
	b := start(t, url, o)
	logstest.Fill(t, a, "a", 0, 1)
	hose := b.Readers().Hose(nil, "")
	defer hose.Close()
	logstest.Fill(t, a, "a", 1, 3)
	connected(true)
	testkit.Eventually(t, "the server has looked", b.FeedTaken)
	received("other\na 2\na 3")
	for want := uint64(2); want <= 3; {
		lines, _, err := hose.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if l.Seq != want {
				t.Fatalf("line %d, want %d", l.Seq, want)
			}
			want++
		}
	}
}

// Without notifications, readers find lines of other servers by looking.
func TestPolling(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t, db.Postgres)
	o := patient()
	o.PollEvery, o.ListenURL = 20*time.Millisecond, "postgres://127.0.0.1:1/none"
	a, b := start(t, url, o), start(t, url, o)
	tail := logstest.Tail(t, b, "a", logs.Newest(0))
	logstest.Fill(t, a, "a", 0, 1)
	if batch := logstest.Next(t, tail); batch.First != 1 {
		t.Errorf("batch begins with %d, want 1", batch.First)
	}
}

// Servers that store the same lines of instances at the same time store each once, and
// number the lines of an app without a gap.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t, db.Postgres)
	stores := []*logdb.Store{start(t, url, patient()), start(t, url, patient()), start(t, url, patient())}
	const lines = 400
	var writers sync.WaitGroup
	for i, s := range stores {
		for app := range 4 {
			writers.Go(func() {
				name := "app-" + strconv.Itoa(app)
				logstest.Fill(t, s, name, 0, lines) // the same of all servers
				for n := range 20 {
					logstest.Add(t, s, platform.LogLine{App: name, Source: "RTR", Text: fmt.Appendf(nil, "%d %d", i, n)})
				}
			})
		}
	}
	for range 5 {
		if err := stores[0].Maintain(t.Context()); err != nil {
			t.Error(err)
		}
	}
	writers.Wait()
	for app := range 4 {
		name := "app-" + strconv.Itoa(app)
		tail := logstest.Tail(t, stores[1], name, logs.After(0))
		var seq, own uint64
		for n := uint64(0); n < lines+60; {
			b := logstest.Next(t, tail)
			if b.First != n+1 || b.Missed != 0 {
				t.Fatalf("%s: batch begins with %d, %d missed, want %d", name, b.First, b.Missed, n+1)
			}
			for _, l := range b.Entries {
				if l.Stream == "" {
					own++
				} else if seq++; l.Seq != seq {
					t.Fatalf("%s: line %d, want %d", name, l.Seq, seq)
				}
			}
			n = b.Last()
		}
		if m := logstest.Meta(t, stores[2], name); seq != lines || own != 60 || m.Count != lines+60 {
			t.Errorf("%s: %d lines of the instance, %d others, meta %+v; want %d and 60", name, seq, own, m, lines)
		}
	}
}

// lease is a fence whose lease is a row.
type lease struct {
	token   int64
	holding chan struct{} // receives a value when a flush holds the lease
	proceed chan struct{}
}

func (l *lease) Hold(tx *db.Tx, apps []string) ([]string, error) {
	var token int64
	if err := tx.QueryRow("SELECT token FROM lease FOR SHARE").Scan(&token); err != nil {
		return nil, err
	}
	if token != l.token {
		return apps, nil
	}
	if l.holding != nil {
		l.holding <- struct{}{}
		<-l.proceed
	}
	return nil, nil
}

// A lease does not move before the flush that relies on it has ended, and afterwards the
// previous holder stores no more lines of instances.
func TestFence(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t, db.Postgres)
	d := dbtest.Open(t, url)
	for _, statement := range []string{"CREATE TABLE lease (token BIGINT NOT NULL)", "INSERT INTO lease VALUES (1)"} {
		if err := exec(d, statement); err != nil {
			t.Fatal(err)
		}
	}
	o := patient()
	before := &lease{token: 1, holding: make(chan struct{}), proceed: make(chan struct{})}
	o.Fence = before
	old := start(t, url, o)
	o.Fence = &lease{token: 2}
	next := start(t, url, o)

	stored := make(chan error, 1)
	go func() { stored <- old.Append(logstest.Line("a", "s", 1, logstest.T0, "one")) }()
	<-before.holding
	moved := make(chan error, 1)
	go func() { moved <- exec(d, "UPDATE lease SET token = 2") }()
	testkit.Eventually(t, "the move of the lease waits", func() bool {
		var waiting int
		err := d.View(t.Context(), func(tx *db.Tx) error {
			return tx.QueryRow("SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE " +
				"lease%'").Scan(&waiting)
		})
		return err == nil && waiting == 1
	})
	select {
	case err := <-moved:
		t.Fatalf("the lease moved during a flush: %v", err)
	default:
	}
	close(before.proceed)
	if err := errors.Join(<-stored, <-moved); err != nil {
		t.Fatal(err)
	}
	go func() {
		for range before.holding { // none is expected
			t.Error("the previous holder still holds the lease")
		}
	}()
	defer close(before.holding)
	err := old.Append(logstest.Line("a", "s", 2, logstest.T0, "late"), platform.LogLine{App: "a", Source: "RTR",
		Text: []byte("access")})
	if err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("a line of the previous holder: %v, want that another server follows the app", err)
	}
	logstest.Add(t, next, logstest.Line("a", "s", 2, logstest.T0, "two"))
	got := logstest.Texts(logstest.Read(t, next, "a", logs.ReadQuery{}))
	slices.Sort(got)
	if want := []string{"access", "one", "two"}; !slices.Equal(got, want) {
		t.Errorf("lines are %q, want %q", got, want)
	}
}

// While the database is away Append waits, lines without a stream are kept or counted, and
// when it is back everything is stored once.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	direct := dbtest.URL(t, db.Postgres)
	p, through := newProxy(t, direct)
	o := patient()
	o.PollEvery, o.QueueBytes = 50*time.Millisecond, 8<<10
	s, other := start(t, through, o), start(t, direct, o)
	logstest.Fill(t, s, "a", 0, 10)
	tail := logstest.Tail(t, other, "a", logs.After(0))
	p.stop()
	waiting := make(chan error, 1)
	go func() { waiting <- s.Append(logstest.Line("a", "s-a", 11, logstest.T0, "eleven")) }()
	// More than fits into the queue.
	told, refused := 0, 0
	for range 200 {
		if err := s.Tell(platform.LogLine{App: "a", Source: "RTR", Text: []byte(strings.Repeat("x", 100))}); err != nil {
			refused++
		} else {
			told++
		}
	}
	select {
	case err := <-waiting:
		t.Fatalf("Append returned %v without a database", err)
	default:
	}
	p.listen(p.at)
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	// The next line brings the report of the loss.
	logstest.Add(t, s, logstest.Line("a", "s-a", 12, logstest.T0, "twelve"))
	// Every line comes once: those of the instance in order, those that were told, and as many
	// reports as there were flushes without a database, which together tell of all that was refused.
	seq, others, reports, reported := uint64(0), 0, 0, uint64(0)
	for n, m := uint64(0), logstest.Meta(t, other, "a"); n < m.Count || seq < 12; m = logstest.Meta(t, other, "a") {
		b := logstest.Next(t, tail)
		for _, l := range b.Entries {
			n++
			switch {
			case l.Stream != "":
				if seq++; l.Seq != seq {
					t.Fatalf("line %d of the instance, want %d", l.Seq, seq)
				}
			case l.Source == logs.SourceLogs:
				var lost uint64
				if _, err := fmt.Sscanf(string(l.Text), "%d lines about this app were lost", &lost); err != nil {
					t.Fatalf("%s: %v, want a report of lost lines", l.Text, err)
				}
				reports++
				reported += lost
			default:
				others++
			}
		}
	}
	m := logstest.Meta(t, other, "a")
	if seq != 12 || others != told || refused == 0 || reports == 0 || reported != uint64(refused) || m.Lost != reported ||
		m.Count != uint64(12+told+reports) {
		t.Errorf("%d lines of the instance, %d of the %d that were told, %d reports of %d of the %d that were refused; "+
			"meta %+v",
			seq, others, told, reports, reported, refused, m)
	}
}

// Append fails when the database stays away, and works again afterwards.
func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	p, through := newProxy(t, dbtest.URL(t, db.Postgres))
	o := patient()
	o.Patience = time.Millisecond
	s := start(t, through, o)
	p.stop()
	if err := s.Append(logstest.Line("a", "s", 1, logstest.T0, "x")); err == nil {
		t.Error("Append returned nil without a database")
	}
	_ = s.Tell(platform.LogLine{App: "a", Text: []byte("told")})
	p.listen(p.at)
	testkit.Eventually(t, "the store works again",
		func() bool { return s.Append(logstest.Line("a", "s", 1, logstest.T0, "x")) == nil })
	testkit.Eventually(t, "the loss is reported", func() bool {
		_ = s.Append(logstest.Line("a", "t", uint64(time.Now().UnixNano()), time.Now(), "next"))
		return slices.ContainsFunc(logstest.Texts(logstest.Read(t, s, "a", logs.ReadQuery{})), func(l string) bool {
			return l == "told" || strings.HasPrefix(l, "1 lines about this app were lost")
		})
	})
}

// objects is an object store in memory.
type objects struct {
	mu  sync.Mutex
	all map[string][]byte
	err error // of Put
}

func (o *objects) Put(_ context.Context, name string, data []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.all[name] = slices.Clone(data)
	}
	return o.err
}

func (o *objects) Get(_ context.Context, name string) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if data, ok := o.all[name]; ok {
		return data, nil
	}
	return nil, errors.New("no such object")
}

func (o *objects) Delete(_ context.Context, name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, name)
	return nil
}

func (o *objects) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}

// Old lines move to the object store and can be read there; objects that nothing refers to
// are deleted; lines stay in the database while the object store is away.
func TestObjects(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t, db.Postgres)
	kept := &objects{all: map[string][]byte{}, err: errors.New("away")}
	o := patient()
	o.PerAppBytes, o.Objects, o.ObjectGrace = 256<<10, kept, time.Nanosecond
	s := start(t, url, o)
	maintain := func() {
		t.Helper()
		if err := s.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const lines = 3000
	logstest.Fill(t, s, "a", 0, 1000)
	maintain()
	if n := kept.count(); n != 0 {
		t.Fatalf("%d objects in a store that is away", n)
	}
	kept.mu.Lock()
	kept.err = nil
	kept.mu.Unlock()
	logstest.Fill(t, s, "a", 1000, lines)
	maintain()
	if n := kept.count(); n < 2 {
		t.Fatalf("%d objects, want 2 or more", n)
	}
	all := logstest.ReadAll(t, s, "a", 1000)
	for i, l := range all {
		if l.Seq != uint64(i+1) {
			t.Fatalf("line %d is %d", i+1, l.Seq)
		}
	}
	if b := logstest.Next(t, logstest.Tail(t, s, "a", logs.After(lines/2))); len(all) != lines || b.First != lines/2+1 {
		t.Errorf("%d lines, a tail begins with %d; want %d and %d", len(all), b.First, lines, lines/2+1)
	}
	logstest.Fill(t, s, "a", lines, 10*lines) // the old ones exceed the share
	maintain()
	maintain()
	if m := logstest.Meta(t, s, "a"); m.Expired < lines {
		t.Errorf("meta is %+v, want %d or more expired", m, lines)
	}
	if n := kept.count(); n > 10 {
		t.Errorf("%d objects are left, want 10 or fewer", n)
	}
	if err := s.DeleteApp("a"); err != nil {
		t.Fatal(err)
	}
	maintain()
	if n := kept.count(); n != 0 {
		t.Errorf("%d objects are left of a deleted app, want none", n)
	}
}

// The partitions of merged lines are dropped.
func TestPartitions(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t, db.Postgres)
	s := start(t, url, patient())
	d := dbtest.Open(t, url)
	for i := range 5 {
		logstest.Fill(t, s, "a", i*100, (i+1)*100)
		if err := s.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var partitions, runs int
	err := d.View(t.Context(), func(tx *db.Tx) error {
		return tx.QueryRow("SELECT (SELECT COUNT(*) FROM pg_inherits WHERE inhparent = CAST('log_chunks' AS regclass)), "+
			"(SELECT COUNT(*) FROM log_runs)").Scan(&partitions, &runs)
	})
	if err != nil || partitions != 1 || runs == 0 {
		t.Errorf("%d partitions, %d runs, %v; want the open partition and some runs", partitions, runs, err)
	}
	if got := logstest.ReadAll(t, s, "a", 1000); len(got) != 500 {
		t.Errorf("%d lines, want 500", len(got))
	}
}

// explosive is a log handler that panics.
type explosive struct{ slog.Handler }

func (explosive) Enabled(context.Context, slog.Level) bool  { return true }
func (explosive) Handle(context.Context, slog.Record) error { panic("the handler failed") }

// unavailable is a fence that cannot be asked at first.
type unavailable struct{ asked atomic.Int64 }

func (u *unavailable) Hold(*db.Tx, []string) ([]string, error) {
	if u.asked.Add(1) == 1 {
		return nil, fault.New(fault.Unavailable, "not now")
	}
	return nil, nil
}

// A panic of the flusher outside of a transaction ends the calls that wait for it, and the
// next lines are stored.
func TestFlusherPanics(t *testing.T) {
	t.Parallel()
	s, err := logdb.Open(t.Context(), dbtest.New(t, db.Postgres), logdb.Options{Fence: &unavailable{},
		Log: slog.New(explosive{slog.DiscardHandler})})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Append(logstest.Line("a", "stream", 1, time.Now(), "one")); err == nil {
		t.Error("a line was stored by a flusher that failed, want an error")
	}
	if err := s.Append(logstest.Line("a", "stream", 1, time.Now(), "one")); err != nil {
		t.Errorf("the next flush: got %v, want nil", err)
	}
	if n := s.Position("stream"); n != 1 {
		t.Errorf("got position %d, want 1", n)
	}
}
