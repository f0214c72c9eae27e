package handover

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestGate checks that a request which waits is served by the next process, and that its connection is
// not used again: this process closes it soon.
func TestGate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket, err := net.Listen("unix", filepath.Join(dir, ForwardName)) //nolint:noctx // it does not wait
	testkit.Must(t, err)
	next := &http.Server{Handler: Forwarded(map[string]http.Handler{ //nolint:gosec // ends with the test
		"all": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body) // an error would be seen in the answer
			_, _ = w.Write(append([]byte("next "), body...))
		}),
	})}
	go func() { _ = next.Serve(socket) }()
	t.Cleanup(func() { _ = next.Close() })

	var gate Gate
	arrived := make(chan struct{}, 1)
	here := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		gate.Serve(w, r, "all", func() { _, _ = io.WriteString(w, "here") })
	}))
	t.Cleanup(here.Close)
	post := func() (text string, closed bool) {
		resp, err := here.Client().Post(here.URL, "text/plain", strings.NewReader("body")) //nolint:noctx // ends with the test
		if err != nil {
			return err.Error(), false
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error(), false
		}
		return string(body), resp.Close
	}
	if text, closed := post(); text != "here" || closed {
		t.Errorf("an open gate: %q, closed %t", text, closed)
	}
	<-arrived
	<-gate.Shut()
	type answer struct {
		text   string
		closed bool
	}
	got := make(chan answer)
	go func() {
		text, closed := post()
		got <- answer{text, closed}
	}()
	<-arrived
	forwarder := NewForwarder(dir, slog.New(slog.DiscardHandler))
	t.Cleanup(forwarder.Close)
	gate.Pass(forwarder)
	if a := <-got; a.text != "next body" || !a.closed {
		t.Errorf("a request that waited: %q, closed %t, want that of the next process on a connection that is closed",
			a.text, a.closed)
	}
}
