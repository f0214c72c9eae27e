package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

// TestMove moves a server with an app to PostgreSQL and to another data directory, as
// docs/kubernetes.md says: database, blobs and secrets.
func TestMove(t *testing.T) {
	t.Parallel()
	target := dbtest.URL(t, db.Postgres) // before the server, which is stopped first
	s := startApps(t, options{Engine: "process"})
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady")...)
	cfOK(t, home, "set-env", "steady", "COLOR", "green")
	app := guid(t, home, "steady")
	s.running(t, app, 1)

	ingot := func(code int, args ...string) string {
		t.Helper()
		p := run(t, nil, args...)
		if got := p.wait(t); got != code {
			t.Fatalf("ingot %v: exit code %d, want %d\n%s%s", args, got, code, p.Stdout, p.Stderr)
		}
		return p.Stdout.String() + p.Stderr.String()
	}
	contains(t, ingot(1, "db", "copy", "--from", s.Dir, "--to", target), "a server (pid ",
		"stop it first, with 'ingot down --data-dir "+s.Dir)
	ingot(0, "down", "--data-dir", s.Dir)
	s.wait(t)
	contains(t, ingot(0, "db", "copy", "--from", s.Dir, "--to", target), "platform_apps",
		"number and checksum of each table are the same", "encryption-keys")
	contains(t, ingot(1, "db", "copy", "--from", s.Dir, "--to", target), "already has rows: name an empty database")
	contains(t, ingot(0, "db", "migrate", "--database-url", target), "platform   version ")

	to := filepath.Join(filepath.Dir(s.Dir), "moved")
	contains(t, ingot(0, "blob", "copy", "--from", "file://"+s.Dir+"/blobs", "--to", "file://"+to+"/blobs"),
		"droplet           1 copied")
	if err := os.CopyFS(filepath.Join(to, "secrets"), os.DirFS(filepath.Join(s.Dir, "secrets"))); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"secrets", "secrets/*"} {
		found, err := filepath.Glob(filepath.Join(to, file))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", file, found, err)
		}
		for _, path := range found {
			mode := os.FileMode(0o600)
			if file == "secrets" {
				mode = 0o700
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.RemoveAll(s.Dir); err != nil { // nothing of it is used any more
		t.Fatal(err)
	}
	s.Dir, s.options.DB = to, target
	s.Restart(t)
	home = s.admin(t)
	s.running(t, app, 1)
	s.reaches(t, "steady", "/", http.StatusOK)
	contains(t, cfOK(t, home, "env", "steady"), "green")
	cfOK(t, home, "restart", "steady")
}
