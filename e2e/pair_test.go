package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

// TestSecondServer starts servers with a local engine on one database: only one
// can run, because each would run every app.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	o := options{
		DB: dbtest.URL(t, db.Postgres),
		Env: []string{
			"INGOT_ENCRYPTION_KEY=" + newKey(), "INGOT_ADMIN_PASSWORD=the password", "INGOT_ADMIN_CLIENT_SECRET=the secret",
		},
	}
	one, two := prepare(t, o), prepare(t, o)
	for _, s := range []*Server{one, two} {
		// Each data directory would have its own secret for the platform's client,
		// and the database only the first server's.
		s.giveSecret(t, "ingot-platform", "the platform's: 100% + &")
	}
	one.launch(t)
	one.awaitReady(t)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	two.launch(t)
	code := two.wait(t)
	for _, want := range []string{host, fmt.Sprintf("pid %d", one.Cmd.Process.Pid), "both would run every app",
		"ingot down"} {
		if code == 0 || !strings.Contains(two.Stderr.String(), want) {
			t.Errorf("the second server ended with code %d, want not 0, and %q in:\n%s", code, want, two.Stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(two.Dir, "processes")); err == nil {
		t.Error("the second server opened its engine, want it refused before")
	}
	one.userTokens(t, "admin", "the password")

	// After a crash the same data directory can be used at once, and another when
	// the row of the first server has expired.
	one.Kill9(t)
	one.Restart(t)
	one.Kill9(t)
	two.launch(t)
	two.awaitReady(t)
	two.userTokens(t, "admin", "the password")
	two.Stop(t)
	one.Restart(t)
	one.userTokens(t, "admin", "the password")
	one.Stop(t)
}
