package health

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ingot/internal/base/web"
)

func TestReadinessFollowsChecks(t *testing.T) {
	t.Parallel()
	h := &Readiness{}
	h.Expect("a", "b")
	broken := errors.New("away")
	var now error
	h.Ready("a", func(context.Context) error { return now })
	if got := missing(h.parts(t.Context())); len(got) != 1 || got[0] != "b" {
		t.Errorf("got %v missing, want b", got)
	}
	h.Ready("b", nil)
	if got := missing(h.parts(t.Context())); len(got) != 0 {
		t.Errorf("got %v missing, want none", got)
	}
	now = broken
	if got := missing(h.parts(t.Context())); len(got) != 1 || got[0] != "a" {
		t.Errorf("got %v missing, want a", got)
	}
}

// /readyz shows a degraded part to everyone, and the reason to operators only.
func TestReadyzOfDegradedParts(t *testing.T) {
	t.Parallel()
	h, why := &Readiness{}, ""
	h.Expect("platform")
	h.Ready("platform", nil)
	h.Watch("apps", func() string { return why })
	ask := func(register func(*web.Mux, *Readiness)) string {
		m := web.NewMux(web.FormatV3, slog.New(slog.DiscardHandler), nil)
		register(m, h)
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusOK {
			t.Errorf("status %d", w.Code)
		}
		return w.Body.String()
	}
	if body := ask(Routes); strings.Contains(body, "degraded") {
		t.Errorf("got %s", body)
	}
	why = "runc at /usr/sbin is broken"
	if body := ask(Routes); !strings.Contains(body, `"status":"degraded"`) || !strings.Contains(body, `"apps":`) ||
		strings.Contains(body, "runc") {
		t.Errorf("got %s", body)
	}
	if body := ask(OperatorRoutes); !strings.Contains(body, why) {
		t.Errorf("got %s", body)
	}
}

// /readyz?verbose lists every part with its state: to operators with the reason, of limited length,
// to others without.
func TestReadyzVerbose(t *testing.T) {
	t.Parallel()
	h := &Readiness{}
	h.Expect("disk", "database", "platform")
	h.Ready("disk", nil)
	h.Ready("database", func(context.Context) error {
		return errors.New("no route to db.internal " +
			strings.Repeat("x", 1000))
	})
	h.Watch("apps", func() string { return "runc is broken" })
	ask := func(register func(*web.Mux, *Readiness), query string) (int, string) {
		m := web.NewMux(web.FormatV3, slog.New(slog.DiscardHandler), nil)
		register(m, h)
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz"+query, nil))
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	const public = `{"status":"not ready","not_ready":["database","platform"],"parts":[{"name":"disk","state":"ready"},{"name":"database","state":"failing"},{"name":"platform","state":"starting"},{"name":"apps","state":"degraded"}]}`
	if code, got := ask(Routes, "?verbose"); code != http.StatusServiceUnavailable || got != public {
		t.Errorf("got %d %s, want %s", code, got, public)
	}
	if _, got := ask(Routes, ""); strings.Contains(got, "parts") {
		t.Errorf("got %s", got)
	}
	_, got := ask(OperatorRoutes, "?verbose")
	for _, want := range []string{"no route to db.internal", "it has not started yet", "runc is broken"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %q in it", got, want)
		}
	}
	if len(got) > 1000 {
		t.Errorf("the reason is not limited: %d bytes", len(got))
	}
}
