package pagetest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// memory keeps sessions.
type memory struct {
	mu       sync.Mutex
	sessions map[string]*page.Session
}

func (m *memory) Create(_ context.Context, s *page.Session, _ int, _ time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sessions[s.Hash] = s
	return nil
}

func (m *memory) Get(_ context.Context, hash string) (*page.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[hash]; s != nil {
		found := *s
		return &found, nil
	}
	return nil, page.ErrNotFound
}

func (m *memory) Refresh(ctx context.Context, s *page.Session) error {
	return m.Create(ctx, s, 0, time.Time{})
}

func (m *memory) Delete(_ context.Context, hash string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, hash)
	return nil
}

// World is a console with a fake platform, and one session.
type World struct {
	*testing.T
	API     *http.ServeMux
	Console *page.Console
	Server  *httptest.Server
	Session *page.Session
	Cookie  string // the header
}

// New returns a world with the console that build returns. The user is logged in.
func New(t *testing.T, build func(page.Options) *page.Console) *World {
	t.Helper()
	const value = "a-cookie"
	sum := sha256.Sum256([]byte(value))
	w := &World{T: t, API: http.NewServeMux(), Cookie: "ingot_console=" + value}
	w.Session = &page.Session{
		Hash: hex.EncodeToString(sum[:]), UserID: "anna", UserName: "anna",
		Secrets:       page.Secrets{Access: "the-token", CSRF: "the-secret"},
		AccessExpires: time.Now().Add(time.Hour), Expires: time.Now().Add(time.Hour),
	}
	w.Console = build(page.Options{Platform: w.API, Sessions: &memory{sessions: map[string]*page.Session{}}})
	w.Login()
	mux := web.NewMux(web.FormatV3, slog.New(slog.DiscardHandler), nil)
	w.Console.Routes(mux)
	w.Server = httptest.NewServer(mux)
	t.Cleanup(w.Server.Close)
	return w
}

// Login stores the session.
func (w *World) Login() {
	w.Helper()
	if err := w.Console.Options.Sessions.Create(w.Context(), w.Session, 1, time.Now()); err != nil {
		w.Fatal(err)
	}
}

// Logout logs the user out, as the form of a page does.
func (w *World) Logout() {
	w.Helper()
	form := url.Values{"csrf": {CSRF(w.Session)}}
	resp := w.send(http.MethodPost, "/console/logout", strings.NewReader(form.Encode()))
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther {
		w.Fatalf("logging out: %s", resp.Status)
	}
}

// CSRF returns a token that the forms of a session accept: its secret, masked with zeros.
func CSRF(s *page.Session) string {
	return base64.RawURLEncoding.EncodeToString(append(make([]byte, len(s.Secrets.CSRF)), s.Secrets.CSRF...))
}

// Open requests a page and returns its response, which may last. The caller closes its body.
func (w *World) Open(path string) *http.Response {
	w.Helper()
	return w.send(http.MethodGet, path, http.NoBody)
}

// Get requests a page and returns its status and text.
func (w *World) Get(path string) (int, string) {
	w.Helper()
	resp := w.Open(path)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (w *World) send(method, path string, body io.Reader) *http.Response {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.Server.URL+path, body)
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Cookie", w.Cookie)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		w.Fatal(err)
	}
	return resp
}

// Page is a template with data, and what it has to contain.
type Page struct {
	Template string
	Data     any
	Want     []string
}

// Pages renders pages.
func Pages(t *testing.T, c *page.Console, pages []Page) {
	t.Helper()
	for _, p := range pages {
		b, err := c.Render(p.Template, page.Page{Title: "T", User: "ann", Data: p.Data})
		if err != nil {
			t.Errorf("%s: %v", p.Template, err)
			continue
		}
		for _, want := range p.Want {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s lacks %s:\n%s", p.Template, want, b)
			}
		}
	}
}

// Pager is the second page of three, of a search for "a b".
func Pager() page.Pager {
	r := httptest.NewRequest(http.MethodGet, page.Path+"/x?q=a+b&page=2", http.NoBody)
	return page.NewPager(r, 101, page.PerPage, "things")
}
