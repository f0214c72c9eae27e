package api_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform/api"
	"ingot/internal/platform/api/builds"
	"ingot/internal/platform/api/ratelimit"
)

// linked returns the link that a download redirects to, without its host.
func linked(t *testing.T, a *answer) string {
	t.Helper()
	at := a.header.Get("Location")
	if a.status != http.StatusFound || !strings.HasPrefix(at, "http://example.com/v3/ingot/downloads/") {
		t.Fatalf("the download answers %d %s, want 302 to a link of this server", a.status, at)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("the redirect has Cache-Control %q, want no-store", got)
	}
	return strings.TrimPrefix(at, "http://example.com")
}

// downloaded returns what a download has in the end.
func (w *world) downloaded(as, path string) string {
	w.t.Helper()
	a := w.want(w.call("", "GET", linked(w.t, w.call(w.as(as), "GET", w.expand(path), nil)), nil), 200)
	return a.body
}

// downloads has a package and a droplet with content, and a clock.
func downloads(t *testing.T, change func(*api.Options)) (w *world, later *atomic.Int64) {
	t.Helper()
	later = &atomic.Int64{}
	w = newWorldIn(t, setupOptions(t, db.SQLite, func(o *api.Options) {
		o.DownloadLinks.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		change(o)
	}))
	w.play([]step{
		{as: "dev", do: "POST /v3/packages", body: `{"type":"bits","relationships":{"app":{"data":{"guid":"$app"}}}}`,
			want: 201, save: "pkg"},
		{as: "dev", do: "POST /v3/packages", body: `{"type":"bits","relationships":{"app":{"data":{"guid":"$app"}}}}`,
			want: 201, save: "pkg2"},
		{as: "dev", do: "POST /v3/droplets", body: `{"relationships":{"app":{"data":{"guid":"$app"}}},"process_types":{}}`,
			want: 201, save: "droplet"},
	})
	w.file("dev", "/v3/packages/$pkg/upload", "p.zip", "content of the package", nil, step{want: 200})
	w.file("dev", "/v3/packages/$pkg2/upload", "p.zip", "content of the other", nil, step{want: 200})
	w.file("dev", "/v3/droplets/$droplet/upload", "d.tgz", "content of the droplet", nil, step{want: 202})
	return w, later
}

// TestDownloadLinks: a download is a redirect to a link that needs no token, and is good for one blob, for reading it,
// and for some minutes.
func TestDownloadLinks(t *testing.T) {
	t.Parallel()
	w, later := downloads(t, func(*api.Options) {})
	dev := w.as("dev")
	link := func(path string) string { return linked(t, w.call(dev, "GET", w.expand(path), nil)) }
	pkg, droplet := link("/v3/packages/$pkg/download"), link("/v3/droplets/$droplet/download")

	for at, want := range map[string]string{pkg: "content of the package", droplet: "content of the droplet"} {
		for _, tok := range []string{"", dev, "no.token.atall"} { // clients may send one along
			if a := w.call(tok, "GET", at, nil); a.status != 200 || a.body != want ||
				a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("the link answers %d %q with %v, want %q", a.status, a.body, a.header, want)
			}
		}
		if a := w.call("", "HEAD", at, nil); a.status != 200 || a.body != "" ||
			a.header.Get("Content-Length") == "" || a.header.Get("Content-Length") == "0" {
			t.Errorf("HEAD answers %d with %d bytes and %v", a.status, len(a.body), a.header)
		}
		r := httptest.NewRequest(http.MethodGet, at, nil)
		r.Header.Set("Range", "bytes=8-9")
		if a := w.send("", r); a.status != http.StatusPartialContent || a.body != "of" {
			t.Errorf("a range of the link: %d %q, want 206 of", a.status, a.body)
		}
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			if a := w.call(dev, method, at, nil); a.status != http.StatusNotFound {
				t.Errorf("%s of the link: %d, want 404", method, a.status)
			}
		}
	}
	// Each answer to HEAD is a redirect as well, which can be followed.
	if a := w.call("", "HEAD", linked(t, w.call(dev, "HEAD", w.expand("/v3/packages/$pkg/download"), nil)),
		nil); a.status != 200 {
		t.Errorf("HEAD of the link that HEAD returned: %d", a.status)
	}

	base, query, _ := strings.Cut(pkg, "?")
	query = "?" + query
	set := func(name, value string) string {
		u, err := url.Parse(pkg)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		if q.Set(name, value); value == "" {
			q.Del(name)
		}
		u.RawQuery = q.Encode()
		return u.String()
	}
	signature := func() string { u, _ := url.Parse(pkg); return u.Query().Get("signature") }()
	other := builds.Links{Key: builds.NewLinkKey()}
	for name, at := range map[string]string{
		"of nothing":        base,
		"of another blob":   w.expand("/v3/ingot/downloads/packages/$pkg2") + query,
		"of another kind":   w.expand("/v3/ingot/downloads/droplets/$pkg") + query,
		"with its blob":     w.expand("/v3/ingot/downloads/droplets/$droplet") + query,
		"valid longer":      set("expires", "99999999999"),
		"valid since ever":  set("expires", ""),
		"valid no number":   set("expires", "x"),
		"without signature": set("signature", ""),
		"cut off":           set("signature", signature[:len(signature)-4]),
		"changed":           set("signature", "AAAA"+signature[4:]),
		"no base64":         set("signature", "%%%"),
		"with another key":  other.To(httptest.NewRequest(http.MethodGet, "/", nil), "packages", w.vars["pkg"]),
	} {
		for _, tok := range []string{"", dev, w.admin()} { // a token does not help
			if a := w.call(tok, "GET", at, nil); a.status != http.StatusForbidden ||
				!strings.Contains(a.detail(), "The download link is not valid: request the download of the ") {
				t.Errorf("a link %s: %d %s, want 403", name, a.status, a.body)
			}
		}
	}

	later.Store(int64(4 * time.Minute))
	if a := w.call("", "GET", pkg, nil); a.status != 200 {
		t.Errorf("after 4 minutes the link answers %d %s", a.status, a.body)
	}
	later.Store(int64(5*time.Minute + time.Second))
	if a := w.call("", "GET", pkg, nil); a.status != http.StatusForbidden ||
		a.detail() != "The download link has expired: request the download of the package again" {
		t.Errorf("after 5 minutes the link answers %d %s, want 403", a.status, a.body)
	}
	if a := w.call("", "GET", link("/v3/packages/$pkg/download"), nil); a.body != "content of the package" {
		t.Errorf("a new link answers %d %s", a.status, a.body)
	}
}

// TestDownloadLinksOfServers: servers with the same key accept each other's links, others do not.
func TestDownloadLinksOfServers(t *testing.T) {
	t.Parallel()
	key := builds.NewLinkKey()
	w, _ := downloads(t, func(o *api.Options) { o.DownloadLinks.Key = key })
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, c := range []struct {
		key  []byte
		want int
	}{{key, 200}, {builds.NewLinkKey(), 403}, {nil, 403}} {
		at := builds.Links{Key: c.key}.To(r, "packages", w.vars["pkg"])
		if a := w.call("", "GET", at, nil); a.status != c.want {
			t.Errorf("a link of another server: %d %s, want %d", a.status, a.body, c.want)
		}
	}
}

// TestDownloadLinksAreNotLimited: following a link is not another request of an address.
func TestDownloadLinksAreNotLimited(t *testing.T) {
	t.Parallel()
	w, _ := downloads(t, func(o *api.Options) {
		o.Limiter = ratelimit.New(ratelimit.Options{Limits: ratelimit.Limits{Unauthenticated: 1}})
	})
	for range 3 {
		if got := w.downloaded("dev", "/v3/packages/$pkg/download"); got != "content of the package" {
			t.Errorf("downloaded %q", got)
		}
	}
}

// TestDownloadLinksTakeTurns: one link is no way to have a server send a file any number of times at once.
func TestDownloadLinksTakeTurns(t *testing.T) {
	t.Parallel()
	w, _ := downloads(t, func(*api.Options) {})
	at := linked(t, w.call(w.as("dev"), "GET", w.expand("/v3/packages/$pkg/download"), nil))
	other := linked(t, w.call(w.as("dev"), "GET", w.expand("/v3/packages/$pkg2/download"), nil))
	begun, end := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			slow := &stalled{ResponseRecorder: httptest.NewRecorder(), begun: begun, end: end}
			w.handler.ServeHTTP(slow, httptest.NewRequest(http.MethodGet, at, nil))
		})
		<-begun
	}
	if a := w.call("", "GET", at, nil); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("beside ten downloads: %d %s %v, want 429", a.status, a.body, a.header)
	}
	if a := w.call("", "GET", other, nil); a.status != http.StatusOK {
		t.Errorf("another file: %d %s, want 200", a.status, a.body)
	}
	close(end)
	all.Wait()
	if a := w.call("", "GET", at, nil); a.status != http.StatusOK {
		t.Errorf("after them: %d %s, want 200", a.status, a.body)
	}
}

// stalled is a response whose first bytes do not leave the server until end is closed.
type stalled struct {
	*httptest.ResponseRecorder
	begun, end chan struct{}
	once       sync.Once
}

func (s *stalled) Write(p []byte) (int, error) {
	s.once.Do(func() { s.begun <- struct{}{}; <-s.end })
	return s.ResponseRecorder.Write(p)
}
