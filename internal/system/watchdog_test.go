package system

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/server/succession"
	"ingot/internal/server/systemd"
)

// errorsOf is a log that passes errors on.
type errorsOf struct {
	slog.Handler
	texts chan string
}

func (e errorsOf) Enabled(context.Context, slog.Level) bool { return true }

func (e errorsOf) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		e.texts <- r.Message
	}
	return nil
}

func (e errorsOf) WithAttrs([]slog.Attr) slog.Handler { return e }

func (e errorsOf) WithGroup(string) slog.Handler { return e }

// TestWatchdog: a server tells systemd that it is alive until something in it hangs, and again
// when that is over.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "watchdog") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	received := make(chan string, 1<<16)
	go func() {
		text := make([]byte, 4096)
		for n, err := socket.Read(text); err == nil; n, err = socket.Read(text) {
			received <- string(text[:n])
		}
		close(received)
	}()
	alive := func() {
		t.Helper()
		for {
			select {
			case text := <-received:
				if strings.HasPrefix(text, "WATCHDOG=1") {
					return
				}
			case <-time.After(2 * time.Minute):
				t.Fatal("the server does not say that it is alive")
			}
		}
	}
	c := testConfig(t)
	failures := make(chan string, 1<<16)
	c.Log = slog.New(errorsOf{texts: failures})
	manager := systemd.New(func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000"}[name]
	})
	s, err := NewSuccession(c, succession.Process{Manager: manager, WhyNot: "this is a test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	alive()
	hang := make(chan struct{})
	s.Current().built.Load().health.Watch("stuck", func() string { <-hang; return "" })
	complained := func() {
		t.Helper()
		for {
			select {
			case text := <-failures:
				if strings.Contains(text, "does not answer its own health check") {
					return
				}
			case <-time.After(2 * time.Minute):
				t.Fatal("the server does not notice that it hangs")
			}
		}
	}
	complained()
	for len(received) > 0 { // of the time before
		<-received
	}
	complained()
	for len(received) > 0 {
		if text := <-received; strings.HasPrefix(text, "WATCHDOG=1") {
			t.Error("a server that hangs says that it is alive")
		}
	}
	close(hang)
	alive()
}
