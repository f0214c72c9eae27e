package sample

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// TestSlowBody has a client that pauses within a body, and one whose response takes
// longer than such a pause.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	read := make(chan error, 2)
	s := httptest.NewServer(steady(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
		if err == nil {
			select {
			case <-r.Context().Done():
				t.Error("the request is canceled after its body was read")
			case <-time.After(100 * time.Millisecond):
			}
			fmt.Fprint(w, "done")
		}
	}), 20*time.Millisecond))
	t.Cleanup(s.Close)
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading a body that pauses: %v", err)
	}
	r, err := s.Client().Post(s.URL, "text/plain", strings.NewReader("all at once"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); string(text) != "done" {
		t.Errorf("%s, %v", text, err)
	}
}

func TestLimitListener(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := LimitListener(inner, 1)
	accepted := make(chan net.Conn, 2)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 2 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	first := <-accepted
	select {
	case <-accepted:
		t.Error("two connections are accepted")
	case <-time.After(20 * time.Millisecond):
	}
	first.Close()
	first.Close() // releases once only
	<-accepted
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the end: %v", err)
	}
}

func TestStripHeaders(t *testing.T) {
	t.Parallel()
	h := http.Header{"X-Forwarded-User": {"a"}, "X_forwarded_user": {"b"}, "x-forwarded_USER": {"c"}, "X-Other": {"d"}}
	StripHeaders(h, "x-forwarded-user")
	if len(h) != 1 || h.Get("X-Other") != "d" {
		t.Errorf("%v", h)
	}
}

func TestEnv(t *testing.T) {
	t.Parallel()
	values := map[string]string{"D": "3s", "N": "7", "L": " a, b,,c", "BAD": "x", "A": "127.0.0.1:80",
		"OUT": "10.0.0.1:80"}
	e := &Env{Get: func(name string) string { return values[name] }}
	if e.Duration("D", 0, 0) != 3*time.Second || e.Int("N", 0, 1) != 7 || fmt.Sprint(e.List("L")) != "[a b c]" ||
		e.Text("NONE", "x") != "x" ||
		e.Address("A", "") != "127.0.0.1:80" || e.LoopbackAddress("A", "") != "127.0.0.1:80" ||
		e.OneOf("NONE", "p", "q") != "p" || e.Err() != nil {
		t.Errorf("%v", e.Err())
	}
	e.Duration("BAD", time.Second, 0)
	e.Int("BAD", 1, 1)
	e.Address("BAD", "")
	e.OneOf("BAD", "p", "q")
	e.Need("NONE", "set it")
	e.LoopbackAddress("OUT", "")
	if err := e.Err(); err == nil || strings.Count(err.Error(), "\n") != 5 {
		t.Errorf("%v", err)
	}
}
