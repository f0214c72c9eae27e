package web_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"ingot/internal/base/web"
)

// HEAD answers what GET would, without a body; also where the answer to GET
// has no end.
func TestHead(t *testing.T) {
	t.Parallel()
	m := web.NewMux(web.FormatV3, quiet, nil)
	g := m.Group("test", web.FormatV3, nil)
	open := web.Public("a test")
	g.Handle(http.MethodGet, "/json", open, func(w http.ResponseWriter, _ *http.Request) error {
		web.WriteJSON(w, http.StatusAccepted, map[string]int{"a": 1})
		return nil
	})
	g.Handle(http.MethodGet, "/stream", open, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: x\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
		<-r.Context().Done()
		return nil
	})
	g.Handle(http.MethodGet, "/closed", web.Scope("a.read"), nil)
	g.Handle(http.MethodPost, "/post", open, func(http.ResponseWriter, *http.Request) error { return nil })
	s := httptest.NewServer(web.Pipeline(m, web.FormatV3, quiet))
	t.Cleanup(s.Close)
	for path, want := range map[string]struct {
		status int
		kind   string
	}{
		"/json":   {202, "application/json; charset=utf-8"},
		"/stream": {200, "text/event-stream"},
		"/closed": {401, "application/json; charset=utf-8"},
		"/post":   {404, "application/json; charset=utf-8"},
		"/none":   {404, "application/json; charset=utf-8"},
	} {
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodHead, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || len(body) > 0 || res.StatusCode != want.status || res.Header.Get("Content-Type") != want.kind {
			t.Errorf("HEAD %s: %d %q %q %v, want %d %q", path, res.StatusCode, res.Header.Get("Content-Type"), body, err,
				want.status, want.kind)
		}
	}
	if n := len(m.Routes()); n != 4 {
		t.Errorf("%d routes in the table, want the 4 that were registered", n)
	}
}

// A trailing slash of a path does not matter, with any method, unless the table
// tells both apart.
func TestTrailingSlash(t *testing.T) {
	t.Parallel()
	m := web.NewMux(web.FormatV3, quiet, nil)
	g := m.Group("test", web.FormatV3, nil)
	say := func(text string) web.Handler {
		return func(w http.ResponseWriter, r *http.Request) error {
			_, err := io.WriteString(w, text+web.Param(r, "id"))
			return err
		}
	}
	g.Handle(http.MethodGet, "/", web.Public("a test"), say("root"))
	g.Handle(http.MethodGet, "/apps", web.Public("a test"), say("list"))
	g.Handle(http.MethodPost, "/apps", web.Public("a test"), say("create"))
	g.Handle(http.MethodGet, "/apps/{id}", web.Public("a test"), say("app "))
	g.Handle(http.MethodGet, "/index/", web.Public("a test"), say("index"))
	for call, want := range map[string]string{
		"GET /": "root", "GET /apps": "list", "GET /apps/": "list", "GET /apps//": "list", "POST /apps/": "create",
		"GET /apps/7": "app 7", "GET /apps/7/": "app 7", "GET /apps/a%2Fb/": "app a/b", "GET /index/": "index",
		"GET /index": "", "DELETE /apps/": "", "GET /none/": "",
	} {
		var method, path string
		for i := range call {
			if call[i] == ' ' {
				method, path = call[:i], call[i+1:]
			}
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if want == "" {
			if w.Code != http.StatusNotFound {
				t.Errorf("%s: %d, want 404", call, w.Code)
			}
			continue
		}
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d %q, want %q", call, w.Code, w.Body, want)
		}
	}
}
