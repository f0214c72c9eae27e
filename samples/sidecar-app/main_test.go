package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// sidecar starts a fake sidecar and returns its port.
func sidecar(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

func get(t *testing.T, a *app, path string) *httptest.ResponseRecorder {
	t.Helper()
	t.Cleanup(a.client.CloseIdleConnections)
	a.client.Transport = &http.Transport{}
	w := httptest.NewRecorder()
	a.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w
}

func TestConfig(t *testing.T) {
	t.Parallel()
	port := sidecar(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"asked":"` + r.Method + " " + r.URL.Path + `"}`))
	})
	w := get(t, &app{Port: port, Patience: time.Minute}, "/config")
	if got := w.Body.String(); w.Code != http.StatusOK || got != `{"asked":"GET /config/"}` ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("answer is %d %s, %v, want 200 and what the sidecar was asked as JSON", w.Code, got, w.Header())
	}
	if w := get(t, &app{}, "/"); w.Code != http.StatusOK {
		t.Errorf("/ answers %d, want 200", w.Code)
	}
}

// TestConfigLate has a sidecar that starts after the request.
func TestConfigLate(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		_, _ = w.Write([]byte("late"))
	}))
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.Listener.Close()
	began := make(chan *httptest.ResponseRecorder)
	go func() { began <- get(t, &app{Port: port, Patience: time.Minute}, "/config") }()
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Skipf("the port is in use: %v", err)
	}
	s.Listener = l
	s.Start()
	defer s.Close()
	if w := <-began; w.Code != http.StatusOK || w.Body.String() != "late" {
		t.Errorf("answer is %d %s, want 200 late", w.Code, w.Body)
	}
}

func TestConfigFails(t *testing.T) {
	t.Parallel()
	refuses := sidecar(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not today", http.StatusServiceUnavailable)
	})
	babbles := sidecar(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, largest+1)) })
	for name, test := range map[string]struct {
		app    *app
		status int
		says   string
	}{
		"no port": {&app{}, http.StatusInternalServerError, "CONFIG_SERVER_PORT is not set"},
		"no port at all": {&app{Port: "a b", Patience: time.Minute}, http.StatusBadGateway,
			"CONFIG_SERVER_PORT is no port"},
		"no sidecar": {&app{Port: "1", Patience: time.Millisecond}, http.StatusBadGateway,
			"the sidecar does not answer"},
		"it refuses": {&app{Port: refuses, Patience: time.Minute}, http.StatusBadGateway,
			"503 Service Unavailable: not today"},
		"it says too much": {&app{Port: babbles, Patience: time.Minute}, http.StatusBadGateway, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if w := get(t, test.app, "/config"); w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
				t.Errorf("answer is %d %s, want %d with %q", w.Code, w.Body, test.status, test.says)
			}
		})
	}
}
