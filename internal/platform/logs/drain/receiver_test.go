package drain_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/safedial"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/drain"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/logs/logstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a syslog server: it takes messages with octet counting.
type receiver struct {
	listener net.Listener
	all      sync.WaitGroup
	// limit is how many messages a connection may bring before it is cut off,
	// with what is in its buffers. The first cuts connections are.
	limit, cuts int

	mu       sync.Mutex
	cond     *sync.Cond
	messages []string
	conns    map[net.Conn]bool
	problem  error
}

func listen(t testing.TB, address string, config *tls.Config, limit, cuts int) *receiver {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	r := &receiver{listener: l, limit: limit, cuts: cuts}
	r.init()
	r.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns[c] = true
			r.mu.Unlock()
			r.all.Go(func() { r.serve(c) })
		}
	})
	t.Cleanup(r.stop)
	return r
}

func (r *receiver) init() {
	r.cond, r.conns = sync.NewCond(&r.mu), map[net.Conn]bool{}
}

// stop ends the receiver and its connections at once.
func (r *receiver) stop() {
	r.listener.Close()
	r.mu.Lock()
	for c := range r.conns {
		c.Close()
	}
	r.mu.Unlock()
	r.all.Wait()
}

func (r *receiver) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	r.mu.Lock()
	r.cuts--
	cut := r.cuts >= 0
	r.mu.Unlock()
	for n := 0; !cut || n < r.limit; n++ {
		size, err := in.ReadString(' ')
		if err != nil {
			return
		}
		length, err := strconv.Atoi(strings.TrimSuffix(size, " "))
		if err != nil {
			r.fail(fmt.Errorf("not a length: %q", size))
			return
		}
		text := make([]byte, length)
		if _, err := io.ReadFull(in, text); err != nil {
			return
		}
		r.add(string(text))
	}
}

func (r *receiver) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problem = err
	r.cond.Broadcast()
}

func (r *receiver) add(message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, message)
	r.cond.Broadcast()
}

// await waits until the messages fulfil a condition.
func (r *receiver) await(t testing.TB, what string, done func(messages []string) bool) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // a drain pauses for up to 90 seconds
	defer cancel()
	stop := context.AfterFunc(ctx, r.cond.Broadcast)
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for !done(r.messages) {
		if ctx.Err() != nil || r.problem != nil {
			t.Fatalf("timed out waiting for %s; %d messages, problem %v", what, len(r.messages), r.problem)
		}
		r.cond.Wait()
	}
	return slices.Clone(r.messages)
}

// drains is a source whose drains can be changed.
type drains struct {
	mu  sync.Mutex
	of  map[string][]drain.Drain
	err error
}

func (d *drains) Drains(context.Context) (map[string][]drain.Drain, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of, d.err
}

func (d *drains) set(of map[string][]drain.Drain, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of, d.err = of, err
}

func one(app string, d drain.Drain) *drains {
	return &drains{of: map[string][]drain.Drain{app: {d}}}
}

func open(t testing.TB, o logfiles.Options) logs.Store {
	t.Helper()
	s, err := logfiles.Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// options are those of a test: loopback is permitted, nothing takes long.
func options(dir string) drain.Options {
	return drain.Options{
		Positions: drain.Files{Dir: dir}, Guard: safedial.Everywhere, Interval: time.Hour, Backoff: time.Millisecond,
		Settle:    50 * time.Millisecond,
		TellEvery: 50 * time.Millisecond,
	}
}

func start(t testing.TB, s logs.Store, source drain.Source, o drain.Options) *drain.Manager {
	t.Helper()
	m := drain.New(s, source, o)
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Stop)
	return m
}

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

func write(t testing.TB, s logs.Store, app string, from, to int) {
	t.Helper()
	for ; from < to; from += 20 {
		var batch []platform.LogLine
		for i := from; i < min(from+20, to); i++ {
			batch = append(batch, platform.LogLine{
				App: app, Time: t0.Add(time.Duration(i)), Source: "APP/PROC/WEB", Instance: "0", Stream: "s-" + app,
				Seq:  uint64(i + 1),
				Text: fmt.Appendf(nil, "line %d", i),
			})
		}
		if err := s.Append(batch...); err != nil {
			t.Fatal(err)
		}
	}
}

// settled waits until a drain knows that its receiver has everything.
func settled(t testing.TB, s logs.Store, m *drain.Manager) {
	t.Helper()
	testkit.Eventually(t, "everything is taken", func() bool {
		all := m.Stats()
		if len(all) != 1 {
			return false
		}
		there := logstest.Meta(t, s, all[0].App)
		return all[0].Ready && all[0].Taken >= there.Count+there.Expired
	})
}

// said are the texts of the app's log that come from the log itself.
func said(t testing.TB, s logs.Store, app string) (out []string) {
	t.Helper()
	all, err := s.Read(t.Context(), app, logs.ReadQuery{Limit: 1000, Descending: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Source == "LGR" {
			out = append(out, string(e.Text))
		}
	}
	slices.Reverse(out)
	return out
}

// numbers are those of the lines in messages, in the order in which each came
// first; what the log says about itself is left out.
func numbers(messages []string) (out []int) {
	seen := map[int]bool{}
	for _, m := range messages {
		i := strings.LastIndex(m, "] line ")
		if i < 0 {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(m[i+len("] line "):]))
		if err == nil && !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}

func checkComplete(t testing.TB, messages []string, from, to int) {
	t.Helper()
	got := numbers(messages)
	if len(got) != to-from {
		t.Errorf("%d lines, want %d", len(got), to-from)
	}
	for i, n := range got {
		if n != from+i {
			t.Fatalf("line %d at place %d", n, i)
		}
	}
}
