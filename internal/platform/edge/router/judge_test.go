package router_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"ingot/internal/platform/edge/router"
)

// TestWebSocket speaks the protocol with a library that knows it.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	f.route("app.test", backend(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(1 << 20)
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, data); err != nil {
				return
			}
		}
	}))
	c, _, err := websocket.Dial(t.Context(), "ws://app.test/chat", &websocket.DialOptions{HTTPClient: f.client})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	for _, size := range []int{0, 1, 125, 126, 70000, 500000} {
		want := bytes.Repeat([]byte{byte(size)}, size)
		if err := c.Write(t.Context(), websocket.MessageBinary, want); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(t.Context()); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, want %d: %v", len(got), size, err)
		}
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	if a := <-f.access; a.Status != http.StatusSwitchingProtocols {
		t.Errorf("access is %+v, want status %d", a, http.StatusSwitchingProtocols)
	}
}
