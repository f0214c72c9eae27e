//go:build unix

package authdb_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/auth"
	"ingot/internal/auth/authdb"
	"ingot/internal/auth/authtest"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
)

// open returns an empty store.
func open(t *testing.T, dialect db.Dialect) (*authdb.Store, *db.DB) {
	t.Helper()
	d := dbtest.Migrated(t, dialect, authdb.Migrations)
	return authdb.New(d), d
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			authtest.StoreConformance(t, func(t *testing.T) auth.Store {
				t.Helper()
				s, _ := open(t, dialect)
				return s
			})
		})
	}
}

// TestMigrateAgain checks that a second migration changes nothing.
func TestMigrateAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for range 2 {
			if err := d.Migrate(t.Context(), authdb.Migrations); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestKeysAreSealed checks that a private key is encrypted in the database, and
// encrypted again when the server's key is rotated.
func TestKeysAreSealed(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			address := dbtest.URL(t, dialect)
			oldKey, newKey := seal.NewKey(), seal.NewKey()
			private := []byte("a private key that stays secret")
			ctx := t.Context()

			d := openWith(t, address, oldKey)
			if err := d.Migrate(ctx, authdb.Migrations); err != nil {
				t.Fatal(err)
			}
			if err := authdb.New(d).AddKey(ctx, &auth.Key{ID: "k", Private: private}, false); err != nil {
				t.Fatal(err)
			}
			var text string
			if err := d.View(ctx, func(tx *db.Tx) error {
				return tx.QueryRow("SELECT private_key FROM auth_keys").Scan(&text)
			}); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text, "stays secret") ||
				strings.Contains(text, base64.StdEncoding.EncodeToString(private)[:20]) {
				t.Errorf("the key is readable: %s", text)
			}

			both := openWith(t, address, newKey+"\n"+oldKey)
			n, err := both.Reseal(ctx, authdb.SealedColumns)
			if err != nil || n != 1 {
				t.Fatalf("sealed %d anew, error %v", n, err)
			}
			keys, err := authdb.New(openWith(t, address, newKey)).Keys(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(keys) != 1 || string(keys[0].Private) != string(private) {
				t.Errorf("got %v", keys)
			}
			if _, err := authdb.New(d).Keys(ctx); err == nil {
				t.Error("the old key still opens it")
			}
		})
	}
}

func openWith(t *testing.T, address, keys string) *db.DB {
	t.Helper()
	ring, err := seal.Parse(keys)
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), db.Options{URL: address, Keys: ring})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestPurgeMany checks that Purge continues after its first batch.
func TestPurgeMany(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			s, d := open(t, dialect)
			const many = 1200
			now := time.Unix(1, 0)
			err := d.Update(t.Context(), func(tx *db.Tx) error {
				for i := range many {
					if _, err := tx.Exec(
						"INSERT INTO auth_revocations (kind, subject, before_at, expires_at) VALUES ('user', ?, 0, ?)",
						fmt.Sprint(i), db.Nanos(now)-many+1+int64(i)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Purge(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			left, err := s.Revocations(t.Context(), time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 1 || !left[0].Expires.Equal(now) {
				t.Errorf("left are %v, want the one that expires now", left)
			}
		})
	}
}
