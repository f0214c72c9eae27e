package accesslog_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/edge/router/accesslog"
)

type takenLines struct {
	mu      sync.Mutex
	lines   []platform.LogLine
	longest int
	err     error
}

func (l *takenLines) Tell(lines ...platform.LogLine) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.longest = max(l.longest, len(lines))
	l.lines = append(l.lines, lines...)
	return l.err
}

// Every line that was added is written before Stop returns, in order and in
// batches, whatever the log store answers.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	const n = 1300
	to := &takenLines{err: errors.New("full")}
	a := accesslog.New(to, slog.New(slog.DiscardHandler))
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range n {
		a.Add(router.Access{App: "app", Time: at, Duration: time.Second, Method: "GET", URI: fmt.Sprintf("/%d", i)})
		a.Add(router.Access{Time: at, URI: "/unknown"})
	}
	if err := a.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Stop()
	if len(to.lines) != n || to.longest > 512 {
		t.Fatalf("got %d lines, at most %d at once; want %d, at most 512", len(to.lines), to.longest, n)
	}
	for i, line := range to.lines {
		if want := fmt.Sprintf("GET /%d ", i); line.App != "app" || line.Source != "RTR" ||
			!line.Time.Equal(at.Add(time.Second)) || !strings.Contains(string(line.Text), want) {
			t.Fatalf("line %d: got %+v, want one of the router with %q", i, line, want)
		}
	}
}
