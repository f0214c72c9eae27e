package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func env(more ...string) func(string) string {
	all := map[string]string{"AUTH_USERNAME": "ann", "AUTH_PASSWORD": "s3cret"}
	for i := 0; i+1 < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return func(name string) string { return all[name] }
}

// TestPasses sends a request as the router does: it is forwarded with the
// signature and without the password.
func TestPasses(t *testing.T) {
	t.Parallel()
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(signature) != "sig" || r.Header.Get(metadata) != "meta" || r.Header.Get("Authorization") != "" ||
			r.Header.Get("X-Forwarded-For") != "1.2.3.4" {
			t.Errorf("headers at the router: %v", r.Header)
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, r.Method+" "+r.Host+r.URL.RequestURI()+" "+string(body))
	}))
	t.Cleanup(router.Close)
	address := strings.TrimPrefix(router.URL, "http://")
	_, port, _ := strings.Cut(address, ":")
	for name, test := range map[string]struct{ router, to, want string }{
		"to the router": {address, "http://debug.example.org/a%20b?x=1", "POST debug.example.org/a%20b?x=1 body"},
		"to localhost":  {"", "http://debug.apps.localhost:" + port + "/", "POST debug.apps.localhost:" + port + "/ body"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := newService(env("ROUTER_ADDRESS", test.router))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.proxy.Transport.(*http.Transport).CloseIdleConnections)
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
			r.SetBasicAuth("ann", "s3cret")
			for name, value := range map[string]string{forwardedURL: test.to, signature: "sig", metadata: "meta",
				"X-Forwarded-For": "1.2.3.4"} {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != http.StatusAccepted || w.Body.String() != test.want {
				t.Errorf("%d %s, want %s", w.Code, w.Body, test.want)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	s, err := newService(env("ROUTER_ADDRESS", "127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		user, password, to, signature string
		want                          int
	}{
		"no password":       {"", "", "http://x.example.org/", "sig", http.StatusUnauthorized},
		"wrong password":    {"ann", "s3cre", "http://x.example.org/", "sig", http.StatusUnauthorized},
		"wrong name":        {"bob", "s3cret", "http://x.example.org/", "sig", http.StatusUnauthorized},
		"not by the router": {"ann", "s3cret", "", "sig", http.StatusBadRequest},
		"not signed":        {"ann", "s3cret", "http://x.example.org/", "", http.StatusBadRequest},
		"a file":            {"ann", "s3cret", "file:///etc/passwd", "sig", http.StatusBadRequest},
		"no router":         {"ann", "s3cret", "http://x.example.org/", "sig", http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			if test.user != "" {
				r.SetBasicAuth(test.user, test.password)
			}
			r.Header.Set(forwardedURL, test.to)
			r.Header.Set(signature, test.signature)
			r.Header.Set(metadata, "meta")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != test.want || (w.Code == http.StatusUnauthorized) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("%d %s, %v, want %d", w.Code, w.Body, w.Header(), test.want)
			}
		})
	}
	for _, missing := range []string{"AUTH_USERNAME", "AUTH_PASSWORD"} {
		if _, err := newService(env(missing, "")); err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}
