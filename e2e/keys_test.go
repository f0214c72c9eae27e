package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
)

func TestEncryptionKeyRotation(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dialect db.Dialect) {
		s := start(t, options{DB: dbtest.URL(t, dialect)})
		before, kids := s.adminToken(t), s.kids(t)
		refresh := s.userTokens(t, "admin", s.secret(t, "admin-password")).Refresh
		works := func() {
			t.Helper()
			if got := s.kids(t); !slices.Equal(got, kids) {
				t.Errorf("the signing keys are %v, and were %v", got, kids)
			}
			s.call(t, http.MethodGet, "/Users", before, nil).want(t, http.StatusOK)
			if kid := jwtPart(t, s.adminToken(t), 0)["kid"]; kid != kids[0] {
				t.Errorf("a new token is signed by %v, want %s", kid, kids[0])
			}
			var got tokens
			s.refresh(t, refresh).want(t, http.StatusOK).into(t, &got)
			refresh = got.Refresh
		}
		works()

		file := filepath.Join(s.Dir, "secrets", "encryption-keys")
		old := keyLines(t, file)
		rotate := run(t, nil, "keys", "rotate-encryption", "--data-dir", s.Dir) // while the server runs
		if code := rotate.wait(t); code != 0 || !strings.Contains(rotate.Stdout.String(), s.Dir) {
			t.Fatalf("exit code %d\n%s%s", code, rotate.Stdout, rotate.Stderr)
		}
		both := keyLines(t, file)
		if len(old) != 1 || len(both) != 2 || both[1] != old[0] || both[0] == old[0] {
			t.Fatalf("%d keys became %d, or in the wrong order", len(old), len(both))
		}
		testkit.CheckMode(t, file, 0o600)
		works() // no effect until the next start
		s.Stop(t)

		s.Restart(t)
		s.Stderr.await(t, "older keys are no longer needed")
		works()
		s.Stop(t)

		writeKeys(t, file, both[0])
		s.Restart(t)
		works()
		s.Stop(t)

		// With another key, or without the file, nothing can be decrypted. The
		// server reports it and changes nothing: with the right key all works again.
		writeKeys(t, file, newKey())
		refused(t, s, "signing key", "which is not in the keyring")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		refused(t, s, "INGOT_ENCRYPTION_KEY")
		writeKeys(t, file, both[0])
		s.Restart(t)
		works()
	})
}

// newKey creates an encryption key, as `openssl rand -base64 32` does.
func newKey() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails
	return base64.StdEncoding.EncodeToString(raw[:])
}

// keyLines returns the keys in a key file.
func keyLines(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	return keys
}

func writeKeys(t *testing.T, file, key string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEncryptionKeyRotationRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := run(t, nil, "keys", "rotate-encryption", "--data-dir", dir)
	if code := p.wait(t); code != 1 || !strings.Contains(p.Stderr.String(), "ingot up") {
		t.Errorf("a directory without keys: exit code %d, %s", code, p.Stderr)
	}
	p = run(t, []string{"INGOT_ENCRYPTION_KEY=" + newKey()}, "keys", "rotate-encryption", "--data-dir", dir)
	if code := p.wait(t); code != 1 || !strings.Contains(p.Stderr.String(), "INGOT_ENCRYPTION_KEY") {
		t.Errorf("keys from the environment: exit code %d, %s", code, p.Stderr)
	}
}
