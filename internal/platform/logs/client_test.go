package logs_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/cli/client"
	"ingot/internal/platform/logs/logstest"
)

// cutter passes connections on to a server and cuts each off after some bytes.
type cutter struct {
	net.Listener
	cuts sync.WaitGroup
}

func newCutter(t *testing.T, server string) *cutter {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l}
	c.cuts.Go(func() {
		for after := int64(1000); ; after = after*3/2 + 777 {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server)
			if err != nil {
				in.Close()
				continue
			}
			c.cuts.Go(func() {
				_, _ = io.Copy(out, in)
				out.Close()
			})
			c.cuts.Go(func() {
				_, _ = io.CopyN(in, out, after)
				in.Close()
				out.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		c.cuts.Wait()
	})
	return c
}

// The command-line client follows a log over connections that are cut off in the
// middle of everything: it shows every line once, in its order.
func TestClientFollows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const total = 3000
	proxy := newCutter(t, strings.TrimPrefix(d.url, "http://"))
	c := client.New("http://"+proxy.Addr().String(), client.Trust{},
		client.Tokens{Access: d.token("u", "cloud_controller.read")})
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	go logstest.Fill(t, d.store, "u", 0, total)
	shown := 0
	err := c.LiveTail(c.API)(ctx, "u", time.Unix(0, 1), func(l client.Line) {
		if l.Text != fmt.Sprintf("%040d", shown) || l.Source != "APP/PROC/WEB" {
			t.Errorf("%s %q at place %d", l.Source, l.Text, shown)
			cancel()
		}
		if shown++; shown == total {
			cancel()
		}
	})
	if err != nil || shown != total {
		t.Errorf("%v, %d lines are shown", err, shown)
	}
}

// The stream of a token that has ended says that a new one is all it takes.
func TestTailEndsWithItsToken(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	s := d.followAs("/api/v1/tail/u", d.tokenUntil(time.Now().Add(10*time.Second), "u", "cloud_controller.read"), "")
	if e := s.event(); e.name != "end" || !strings.Contains(e.data, `"resume":true`) ||
		!strings.Contains(e.data, "expired") {
		t.Errorf("event is %+v, want an end with an expired token that can resume", e)
	}
}
