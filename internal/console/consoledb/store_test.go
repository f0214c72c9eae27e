//go:build unix

package consoledb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/console/consoledb"
	"ingot/internal/console/page"
)

func session(hash, user string, expires time.Time) *page.Session {
	return &page.Session{
		Hash: hash, UserID: user, UserName: user + "@example.com", Scopes: []string{"openid", "cloud_controller.read"},
		Secrets:       page.Secrets{Access: "access-of-" + hash, Refresh: "refresh-of-" + hash, CSRF: "csrf"},
		AccessExpires: expires.Add(-time.Hour), Expires: expires,
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, dialect, consoledb.Migrations)
			s, ctx, now := consoledb.New(d), t.Context(), time.Now().UTC()
			if _, err := s.Get(ctx, "none"); !errors.Is(err, page.ErrNotFound) {
				t.Errorf("an unknown session: %v, want ErrNotFound", err)
			}
			if err := s.Create(ctx, session("old", "ann", now.Add(-time.Second)), 3, now); err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				if err := s.Create(ctx, session(fmt.Sprint("h", i), "ann", now.Add(time.Duration(i+1)*time.Hour)), 3,
					now); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Create(ctx, session("other", "bob", now.Add(time.Hour)), 3, now); err != nil {
				t.Fatal(err)
			}
			for hash, want := range map[string]bool{"old": false, "h0": false, "h1": false, "h2": true, "h3": true, "h4": true,
				"other": true} {
				if _, err := s.Get(ctx, hash); (err == nil) != want {
					t.Errorf("session %s: %v, want it to exist: %t", hash, err, want)
				}
			}
			v, err := s.Get(ctx, "h4")
			if err != nil {
				t.Fatal(err)
			}
			if want := session("h4", "ann", now.Add(5*time.Hour)); fmt.Sprint(*v) != fmt.Sprint(*want) {
				t.Errorf("session is\n%v\nwant\n%v", *v, *want)
			}
			v.Secrets.Access, v.Scopes, v.AccessExpires = "new", []string{"x"}, now.Add(time.Minute)
			if err := s.Refresh(ctx, v); err != nil {
				t.Fatal(err)
			}
			if again, err := s.Get(ctx, "h4"); err != nil || fmt.Sprint(*again) != fmt.Sprint(*v) {
				t.Errorf("refreshed session is %v, %v, want %v", again, err, *v)
			}
			for range 2 {
				if err := s.Delete(ctx, "h4"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Get(ctx, "h4"); !errors.Is(err, page.ErrNotFound) {
				t.Errorf("a deleted session: %v, want ErrNotFound", err)
			}
			err = d.View(ctx, func(tx *db.Tx) error {
				text, err := db.One(tx, func(row db.Scanner) (text string, err error) { err = row.Scan(&text); return text, err },
					"SELECT secrets FROM console_sessions WHERE hash = 'h3'")
				if err == nil && (strings.Contains(text, "access") || !strings.HasPrefix(text, "s1.")) {
					t.Errorf("the tokens are stored as %s", text)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
