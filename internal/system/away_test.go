//go:build unix

package system

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db/dbtest/pgproc"
	"ingot/internal/base/logging"
)

type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedLog) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Count(l.b.Bytes(), []byte("\n"))
}

// TestDatabaseAway stops a real PostgreSQL under a server: every service answers
// 503 with Retry-After, readiness tells, background work neither spins nor ends,
// and all goes on when the database is back.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_TEST_NO_POSTGRES") == "1" {
		t.Skip("INGOT_TEST_NO_POSTGRES is set")
	}
	pg, err := pgproc.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pg.Stop)
	log := &lockedLog{}
	c := testConfig(t)
	c.DatabaseURL, c.Log = pg.URL, logging.New(log, false, slog.LevelInfo)
	s := startSystem(t, c)
	e := s.Endpoints()
	token := adminToken(t, s)
	if a := call(t, http.MethodPost, e.API+"/oauth/clients", token, map[string]any{
		"client_id": "sender", "client_secret": "s", "authorized_grant_types": []string{"client_credentials"},
		"authorities": []string{"notifications.write", "notifications.manage", "emails.write"},
	}); a.status != http.StatusCreated {
		t.Fatalf("creating the client: %d, want 201: %s", a.status, a.body)
	}
	sender := clientToken(t, s, "sender", "s")
	calls := []struct {
		name, method, address string
		body                  any
	}{
		{"platform, read", http.MethodGet, e.API + "/v3/apps", nil},
		{"platform, write", http.MethodPost, e.API + "/v3/organizations",
			map[string]string{"name": "o" + strconv.Itoa(os.Getpid())}},
		{"auth, login", http.MethodPost, e.Auth + "/oauth/token", url.Values{"grant_type": {"client_credentials"},
			"client_id": {"admin"}, "client_secret": {readSecret(t, s, adminClientFile)}}},
		{"auth, passcode", http.MethodPost, e.Auth + "/oauth/token", url.Values{"grant_type": {"password"},
			"client_id": {"cf"}, "client_secret": {""}, "passcode": {"x"}}},
		{"auth, read", http.MethodGet, e.Auth + "/Users", nil},
		{"notifications, read", http.MethodGet, e.Notifications + "/notifications", nil},
		{"notifications, write", http.MethodPut, e.Notifications + "/notifications", map[string]any{"source_name": "x",
			"notifications": map[string]any{"k": map[string]any{"description": "d"}}}},
	}
	tokenFor := func(name string) string {
		if strings.HasPrefix(name, "notifications") {
			return sender
		}
		return token
	}
	for _, one := range calls {
		if a := call(t, one.method, one.address, tokenFor(one.name), one.body); a.status >= 500 ||
			a.status == http.StatusForbidden {
			t.Fatalf("%s answers %d, want neither 403 nor 5xx: %s", one.name, a.status, a.body)
		}
	}
	// A message that is accepted before or after is delivered, whatever happened
	// in between.
	delivered := func(subject string) {
		t.Helper()
		a := call(t, http.MethodPost, e.Notifications+"/emails", sender, map[string]string{"to": "ann@example.org",
			"kind_id": "k", "subject": subject, "text": "t"})
		if a.status != http.StatusOK {
			t.Fatalf("send %s: %d %s", subject, a.status, a.body)
		}
		for !strings.Contains(call(t, http.MethodGet, e.Admin+"/mailbox/messages?to=ann@example.org", "", nil).
			body, subject) {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatalf("%s is not delivered", subject)
			}
		}
	}
	delivered("before")
	for round := range 2 {
		if err := pg.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		started := log.lines()
		for _, one := range calls {
			a := call(t, one.method, one.address, tokenFor(one.name), one.body)
			seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
			if a.status != http.StatusServiceUnavailable || err != nil || seconds < 1 || strings.Contains(a.body, pg.Dir) ||
				!strings.Contains(a.body, "database") {
				t.Errorf("round %d, %s: %d, Retry-After %q: %s", round, one.name, a.status, a.header.Get("Retry-After"), a.body)
			}
		}
		if a := call(t, http.MethodGet, e.API+"/readyz", "", nil); a.status != http.StatusServiceUnavailable ||
			!strings.Contains(a.body, partDatabase) {
			t.Errorf("/readyz: %d %s", a.status, a.body)
		}
		if a := call(t, http.MethodGet, e.API+"/healthz", "", nil); a.status != http.StatusOK {
			t.Errorf("/healthz: %d %s", a.status, a.body)
		}
		// Long enough that a loop without a pause would fill the log.
		watch, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		<-watch.Done()
		cancel()
		if n := log.lines() - started; n > 200 {
			t.Errorf("%d lines in the log while the database was away", n)
		}
		if err := pg.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		for call(t, http.MethodGet, e.API+"/readyz", "", nil).status != http.StatusOK {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("the server does not become ready again")
			}
		}
		for _, one := range calls {
			if a := call(t, one.method, one.address, tokenFor(one.name), one.body); a.status >= 500 {
				t.Errorf("round %d, %s, when it is back: %d %s", round, one.name, a.status, a.body)
			}
		}
		delivered("after round " + strconv.Itoa(round))
	}
}
