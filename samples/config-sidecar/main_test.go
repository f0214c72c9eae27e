package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"ingot/samples/internal/sample"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  map[string]string
		want string
	}{
		"as it comes": {nil, `{"scope":"some-service.admin","password":"not-a-real-password"}`},
		"set": {map[string]string{"CONFIG_SCOPE": "a.b", "CONFIG_PASSWORD": "x\"y"},
			`{"scope":"a.b","password":"x\"y"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			handler(func(name string) string { return test.env[name] }).
				ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/config/", http.NoBody))
			got := strings.NewReplacer("\n", "", "  ", "", `": `, `":`).Replace(w.Body.String())
			if w.Code != http.StatusOK || got != test.want {
				t.Errorf("%d %s, want %s", w.Code, got, test.want)
			}
		})
	}
	w := httptest.NewRecorder()
	handler(func(string) string { return "" }).ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/config/",
		http.NoBody))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d", w.Code)
	}
}

// TestLocalhostOnly connects on localhost, and fails on every other address of
// this machine.
func TestLocalhostOnly(t *testing.T) {
	t.Parallel()
	var listeners []net.Listener
	var port string
	for range 20 { // a free port can be taken before the test uses it
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(l.Addr().String())
		l.Close()
		if listeners, err = listen(t.Context(), port); err == nil {
			break
		}
	}
	if len(listeners) == 0 {
		t.Fatal("no port was free twice")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sample.Serve(ctx, handler(func(string) string { return "" }), listeners...) }()

	client := &http.Client{Transport: &http.Transport{}}
	r, err := client.Get("http://localhost:" + port + "/config/")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil || !strings.Contains(string(text), `"scope"`) {
		t.Errorf("answer is %q, %v, want a scope", text, err)
	}
	// On Linux all of 127.0.0.0/8 is this machine: a server that listens on every
	// address would answer there.
	if c, err := net.Dial("tcp", "127.0.0.2:"+port); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("127.0.0.2: %v, want it refused", err)
		if c != nil {
			c.Close()
		}
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBadPort(t *testing.T) {
	t.Parallel()
	for _, port := range []string{"", "http", "0", "-1", "70000"} {
		if _, err := listen(t.Context(), port); err == nil || !strings.Contains(err.Error(), "CONFIG_SERVER_PORT") {
			t.Errorf("port %q: error is %v, want one that names CONFIG_SERVER_PORT", port, err)
		}
	}
}
