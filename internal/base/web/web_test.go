package web_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/logging"
	"ingot/internal/base/web"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// The cache of verified tokens has its own clock.
		goleak.IgnoreAnyFunction("github.com/maypok86/otter/v2.(*cache[...]).periodicCleanUp"))
}

var quiet = slog.New(slog.DiscardHandler)

func serve(t *testing.T, f web.Format, log *slog.Logger, h web.Handler) http.Handler {
	t.Helper()
	m := web.NewMux(f, log, nil)
	m.Group("test", f, nil).Handle(http.MethodPost, "/x", web.Public("a test"), h)
	return web.Pipeline(m, f, log)
}

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/x", strings.NewReader(body)))
	return w
}

func TestErrorBodies(t *testing.T) {
	t.Parallel()
	several := fault.Invalid("Name can't be blank", "Memory must be positive")
	tests := map[string]struct {
		format web.Format
		err    error
		status int
		body   string
	}{
		"v3": {web.FormatV3, fault.New(fault.NotFound, "App not found"), 404,
			`{"errors":[{"code":10010,"title":"CF-ResourceNotFound","detail":"App not found"}]}`},
		"v3 several": {web.FormatV3, several, 422,
			`{"errors":[{"code":10008,"title":"CF-UnprocessableEntity","detail":"Name can't be blank"},{"code":10008,"title":"CF-UnprocessableEntity","detail":"Memory must be positive"}]}`},
		"v3 token": {web.FormatV3, fault.New(fault.InvalidToken, "Invalid Auth Token"), 401,
			`{"errors":[{"code":1000,"title":"CF-InvalidAuthToken","detail":"Invalid Auth Token"}]}`},
		"notifications": {web.FormatNotifications, several, 422,
			`{"errors":["Name can't be blank, Memory must be positive"]}`},
		"oauth": {web.FormatOAuth, fault.New(fault.BadRequest, "Missing grant type"), 400,
			`{"error":"invalid_request","error_description":"Missing grant type"}`},
		"oauth own word": {web.FormatOAuth, fault.New(fault.BadRequest, "no").WithKind("invalid_scope"), 400,
			`{"error":"invalid_scope","error_description":"no"}`},
		"oauth scopes": {web.FormatOAuth, web.Insufficient("a.read", "a.admin"), 403,
			`{"error":"insufficient_scope","error_description":"You are not authorized to perform the requested action","scope":"a.read a.admin"}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := post(serve(t, tc.format, quiet, func(http.ResponseWriter, *http.Request) error { return tc.err }), "")
			if w.Code != tc.status || strings.TrimSpace(w.Body.String()) != tc.body {
				t.Errorf("%d %s\nwant %d %s", w.Code, w.Body, tc.status, tc.body)
			}
			if got := w.Header().Get("Content-Type"); got != "application/json; charset=utf-8" {
				t.Errorf("Content-Type %q", got)
			}
			if (w.Header().Get("WWW-Authenticate") != "") != (tc.status == 401) {
				t.Errorf("WWW-Authenticate %q", w.Header().Get("WWW-Authenticate"))
			}
		})
	}
}

// Every code has a meaning: a code forgotten in the table would become a 500.
func TestEveryCodeHasAMeaning(t *testing.T) {
	t.Parallel()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../fault/fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Type == nil || len(spec.Values) != 1 {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != "Code" {
			return true
		}
		found++
		code := fault.Code(strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
		w := post(serve(t, web.FormatNotifications, quiet,
			func(http.ResponseWriter, *http.Request) error { return fault.New(code, "m") }), "")
		if (w.Code == 500) != (code == fault.Internal) {
			t.Errorf("%s gives %d", code, w.Code)
		}
		return true
	})
	if found < 15 {
		t.Errorf("only %d codes were found", found)
	}
}

// What the machine lacks is said, wherever it was noticed, without paths of the server.
func TestErrorsOfTheMachine(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]struct {
		status int
		word   string
	}{
		syscall.ENOSPC: {507, "disk"}, syscall.EDQUOT: {507, "disk"}, syscall.EROFS: {503, "read-only"},
		syscall.EMFILE: {503, "files open"}, syscall.EIO: {500, "unknown"},
	} {
		w := post(serve(t, web.FormatV3, slog.New(slog.DiscardHandler), func(http.ResponseWriter, *http.Request) error {
			return fmt.Errorf("store: %w", &os.PathError{Op: "write", Path: "/secret/path", Err: cause})
		}), "")
		if w.Code != want.status || !strings.Contains(w.Body.String(), want.word) ||
			strings.Contains(w.Body.String(), "/secret") || (w.Header().Get("Retry-After") == "") != (w.Code == 500) {
			t.Errorf("%v: %d %s, Retry-After %q; want %d with %q", cause, w.Code, w.Body, w.Header().Get("Retry-After"),
				want.status, want.word)
		}
	}
}

func TestUnknownErrorsAreOpaque(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]web.Handler{
		"error": func(http.ResponseWriter, *http.Request) error { return errors.New("dial 10.0.0.1: password=hunter2") },
		"panic": func(http.ResponseWriter, *http.Request) error { panic("password=hunter2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			w := post(serve(t, web.FormatV3, logging.New(&log, false, slog.LevelDebug), h), "")
			if w.Code != 500 || strings.Contains(w.Body.String(), "hunter2") || strings.Contains(w.Body.String(), "10.0.0.1") {
				t.Fatalf("answer is %d %s, want 500 without secrets", w.Code, w.Body)
			}
			_, after, ok := strings.Cut(w.Body.String(), "log is ")
			if !ok || len(after) < 12 || !strings.Contains(log.String(), after[:12]) {
				t.Errorf("the id of %s is not in the log:\n%s", w.Body, log.String())
			}
			id := w.Header().Get("X-Vcap-Request-Id")
			for _, line := range strings.Split(strings.TrimSpace(log.String()), "\n") {
				var entry map[string]any
				if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["request_id"] != id {
					t.Errorf("line without the request id: %s", line)
				}
			}
		})
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	h := serve(t, web.FormatV3, quiet, func(w http.ResponseWriter, r *http.Request) error {
		_, err := io.WriteString(w, r.Header.Get("X-Vcap-Request-Id"))
		return err
	})
	for in, kept := range map[string]bool{
		"": false, "abc-123": true, "5e7a::77": true, "a\nb": false, "a b": false, `a"b`: false,
		strings.Repeat("a", 129): false,
	} {
		r := httptest.NewRequest(http.MethodPost, "/x", nil)
		r.Header["X-Vcap-Request-Id"] = []string{in}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header().Get("X-Vcap-Request-Id")
		if got == "" || (got == in) != kept || w.Body.String() != got {
			t.Errorf("%q became %q, and %q for the handler", in, got, w.Body)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	type body struct {
		Name  string            `json:"name"`
		Count int               `json:"count"`
		Tags  []string          `json:"tags"`
		Env   map[string]string `json:"env"`
		On    bool              `json:"on"`
	}
	for in, want := range map[string]struct {
		status int
		says   string
	}{
		`{"name":"a","count":1,"tags":["x"],"env":{"A":"b"},"on":true}`: {200, ""},
		``:                        {400, "empty"},
		`{"name":`:                {400, "ends too early"},
		`{"name" 1}`:              {400, "byte 9"},
		`{} x`:                    {400, "broken"},
		`{}{}`:                    {400, "not the JSON"},
		`{"name":3}`:              {422, "name must be a string, not number"},
		`{"count":"x"}`:           {422, "count must be a number, not string"},
		`{"count":1.5}`:           {422, "count must be a number"},
		`{"tags":"x"}`:            {422, "tags must be a list"},
		`{"env":[]}`:              {422, "env must be an object"},
		`{"on":"yes"}`:            {422, "on must be a boolean"},
		`[]`:                      {422, "the request body must be an object, not array"},
		`{"nam":"a"}`:             {422, "Unknown field(s): 'nam'"},
		strings.Repeat("x", 1025): {400, "byte 1"},
		`{"name":"` + strings.Repeat("x", 2<<20) + `"}`: {413, "larger than"},
	} {
		h := serve(t, web.FormatNotifications, quiet, func(_ http.ResponseWriter, r *http.Request) error {
			var b body
			return web.DecodeStrict(r, &b)
		})
		if w := post(h, in); w.Code != want.status || !strings.Contains(w.Body.String(), want.says) {
			t.Errorf("%.40s: %d %s, want %d %q", in, w.Code, w.Body, want.status, want.says)
		}
	}
}

// TestParam reads a parameter from a path that is escaped in several ways.
func TestParam(t *testing.T) {
	t.Parallel()
	m, got := web.NewMux(web.FormatV3, quiet, nil), ""
	m.Group("test", web.FormatV3, nil).Handle(http.MethodGet, "/of/{id}/end", web.Public("a test"),
		func(_ http.ResponseWriter, r *http.Request) error {
			got = web.Param(r, "id")
			return nil
		})
	for path, want := range map[string]string{
		"a@b": "a@b", "a%40b": "a@b", "%61%40b": "a@b", "a%20b": "a b", "a%2Fb": "a/b", "a%252Fb": "a%2Fb", "%2525": "%25",
		"a%252F%40": "a%2F@", "100%25": "100%",
	} {
		got = ""
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/of/"+path+"/end", nil))
		if w.Code != 200 || got != want {
			t.Errorf("%s: %d %q, want %q", path, w.Code, got, want)
		}
	}
}

func TestRouteTable(t *testing.T) {
	t.Parallel()
	m := web.NewMux(web.FormatV3, quiet, nil)
	g := m.Group("test", web.FormatV3, nil)
	g.Handle(http.MethodGet, "/open", web.Public("a test"), func(http.ResponseWriter, *http.Request) error { return nil })
	g.Handle(http.MethodGet, "/closed", web.Scope("a.read"), func(http.ResponseWriter, *http.Request) error { return nil })
	for path, want := range map[string]int{"/open": 200, "/closed": 401, "/none": 404} {
		w := httptest.NewRecorder()
		m.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/open", nil))
	if w.Code != 404 || !strings.Contains(w.Body.String(), "Unknown request") {
		t.Errorf("a wrong method on the v3 API: %d %s", w.Code, w.Body)
	}
	if routes := m.Routes(); len(routes) != 2 || routes[1].Decision != "token" || routes[1].Scopes[0] != "a.read" ||
		routes[0].Reason == "" {
		t.Errorf("routes %+v", routes)
	}
	defer func() {
		if recover() == nil {
			t.Error("a route without a decision was registered")
		}
	}()
	g.Handle(http.MethodGet, "/forgotten", web.Access{}, nil)
}

// A slow client is cut off, and the next request on the connection has its
// full time again.
func TestDeadlinesAreOfTheRequest(t *testing.T) {
	t.Parallel()
	m := web.NewMux(web.FormatV3, quiet, nil)
	g := m.Group("test", web.FormatV3, nil)
	g.Within(web.Limits{Body: 10, Read: time.Nanosecond}).Handle(http.MethodPost, "/short", web.Public("a test"),
		func(_ http.ResponseWriter, r *http.Request) error {
			_, err := io.ReadAll(r.Body)
			return err
		})
	l, err := web.Listen(t.Context(), "listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := web.NewServer(l, web.Pipeline(m, web.FormatV3, quiet), quiet)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	// The body never comes.
	if _, err := io.WriteString(c, "POST /short HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(c); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Fatal(err)
	}
}

func TestListenExplains(t *testing.T) {
	t.Parallel()
	l, err := web.Listen(t.Context(), "listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, err = web.Listen(t.Context(), "admin-listen", l.Addr().String())
	if err == nil || !strings.Contains(err.Error(), "--admin-listen") ||
		!strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

func TestServerHonoursTheContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		l, err := web.Listen(t.Context(), "listen", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return web.NewServer(l, http.NotFoundHandler(), quiet)
	})
}
