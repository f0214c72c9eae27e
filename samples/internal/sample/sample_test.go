package sample

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServices(t *testing.T) {
	t.Parallel()
	all, err := Services(`{
		"user-provided": [{"name": "mine", "credentials": {"url": "http://x"}}],
		"postgres": [{"name": "db", "tags": ["sql"], "credentials": {"port": 5432, "host": "h", "flag": true}}, {"name": "other", "credentials": {"port": "5433"}}]
	}`)
	if err != nil || len(all) != 3 {
		t.Fatalf("services are %+v, %v, want 3", all, err)
	}
	for i, want := range []string{"postgres db 5432", "postgres other 5433", "user-provided mine "} {
		if got := all[i].Label + " " + all[i].Name + " " + all[i].Credential("port"); got != want {
			t.Errorf("service %d is %q, want %q", i, got, want)
		}
	}
	if got := all[0].Credential("flag") + all[0].Credential("nothing"); got != "" {
		t.Errorf("credentials that are no text: %q", got)
	}
	for _, nothing := range []string{"", "{}"} {
		if all, err := Services(nothing); err != nil || len(all) != 0 {
			t.Errorf("services of %q are %v, %v, want none", nothing, all, err)
		}
	}
	if _, err := Services("{"); err == nil || !strings.Contains(err.Error(), "VCAP_SERVICES") {
		t.Errorf("half of VCAP_SERVICES: %v", err)
	}
}

// TestServe stops a server during a request, which must get a response.
func TestServe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	begun := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			close(begun)
			<-ctx.Done()
			JSON(w, http.StatusTeapot, map[string]int{"n": 1})
		}), l)
	}()
	go func() { <-begun; stop() }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	r, err := client.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusTeapot || string(text) != "{\n  \"n\": 1\n}\n" ||
		r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answer is %d %q, %v, want %d and indented JSON", r.StatusCode, text, err, http.StatusTeapot)
	}
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
}

func TestServeFails(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := Serve(t.Context(), http.NotFoundHandler(), l); err == nil {
		t.Error("a listener that is closed is no failure")
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	JSON(w, http.StatusOK, func() {})
	if w.Code != http.StatusInternalServerError {
		t.Errorf("what is no JSON: %d", w.Code)
	}
}
