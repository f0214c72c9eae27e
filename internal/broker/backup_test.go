package broker

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/seal"
)

// TestBackup saves the data of instances while their servers run, and restores it on new
// servers: credentials and data are as before.
func TestBackup(t *testing.T) {
	t.Parallel()
	keys, dir := testKeys(t), tempDir(t)
	b := started(t, Config{Dir: dir, Keys: keys})
	need(t, b, Postgres, MySQL, Redis)
	c := clientOf(t, b)
	id := map[string]string{Postgres: c.made(Postgres, "small"), MySQL: c.made(MySQL, "small"),
		Redis: c.made(Redis, "small")}
	got := map[string]creds{}
	for offering := range id {
		_, got[offering] = c.bound(offering, id[offering])
	}
	empty := c.made(Redis, "small") // whose data is not saved
	for offering, statements := range map[string][]string{
		Postgres: {"CREATE TABLE t (x TEXT PRIMARY KEY)", "INSERT INTO t VALUES ('ü''\\')",
			"CREATE VIEW v AS SELECT x FROM t", "CREATE SCHEMA other"},
		MySQL: {"CREATE TABLE t (x VARCHAR(20) PRIMARY KEY)", "INSERT INTO t VALUES ('ü''\\\\')",
			"CREATE VIEW v AS SELECT x FROM t"},
	} {
		db := connect(t, offering, got[offering])
		for _, s := range statements {
			if _, err := db.ExecContext(t.Context(), s); err != nil {
				t.Fatalf("%s: %s: %v", offering, s, err)
			}
		}
		db.Close()
	}
	if err := rd(t, got[Redis]).Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}

	all, saved := savedData(t, dir, keys, empty)
	if len(all) != 4 {
		t.Fatalf("%d instances, want 4", len(all))
	}
	b.Stop()
	for _, one := range all {
		var unsaved *UnsavedError
		if _, err := one.Save(t.Context(), io.Discard); !errors.As(err, &unsaved) ||
			!strings.Contains(err.Error(), "is its server running?") {
			t.Errorf("save %s while its server is stopped: %v, want that it says so", one.Offering, err)
		}
	}

	b, done := restoredBroker(t, dir, keys, saved)
	if done.Instances != 4 || len(done.Lost) > 0 {
		t.Fatalf("restored %+v, want 4 instances", done)
	}
	for _, offering := range []string{Postgres, MySQL} {
		var x string
		if err := connect(t, offering, got[offering]).QueryRowContext(t.Context(), "SELECT x FROM v").Scan(&x); err != nil ||
			x != `ü'\` {
			t.Errorf("%s: got %q, %v, want what was saved", offering, x, err)
		}
		if _, err := connect(t, offering, got[offering]).ExecContext(t.Context(), "DROP VIEW v"); err != nil {
			t.Errorf("%s: the user does not own its tables: %v", offering, err)
		}
	}
	if v, err := rd(t, got[Redis]).Get(t.Context(), "k").Result(); err != nil || v != "v" {
		t.Errorf("redis: got %q, %v, want what was saved", v, err)
	}
	clientOf(t, b).deprovision(Redis, "small", empty)
}

// savedData saves the data of all instances, except those without.
func savedData(t *testing.T, dir string, keys *seal.Keyring, without ...string) ([]Saved, map[string][]byte) {
	t.Helper()
	all, err := Savable(Config{Dir: dir, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	saved := map[string][]byte{}
	for _, one := range all {
		if slices.Contains(without, one.ID) {
			continue
		}
		var out bytes.Buffer
		if missing, err := one.Save(t.Context(), &out); err != nil || len(missing) > 0 {
			t.Fatalf("%v, not saved: %q", err, missing)
		}
		saved[one.Name] = out.Bytes()
	}
	return all, saved
}

// restoredBroker restores the data on new servers and starts them. The old ones must have
// been stopped: they have the same ports.
func restoredBroker(t *testing.T, dir string, keys *seal.Keyring, saved map[string][]byte) (*Broker, Restored) {
	t.Helper()
	return restoredWithin(t, 0, dir, keys, saved)
}

// restoredWithin is restoredBroker with a limit for loading the data of an instance.
func restoredWithin(t *testing.T, limit time.Duration, dir string, keys *seal.Keyring,
	saved map[string][]byte) (*Broker, Restored) {
	t.Helper()
	other := tempDir(t)
	if err := os.CopyFS(filepath.Join(other, "broker"), os.DirFS(filepath.Join(dir, "broker"))); err != nil {
		t.Fatal(err)
	}
	done, err := Restore(t.Context(), Config{Dir: other, Keys: keys, Load: limit},
		func(name string) (io.ReadCloser, error) {
			if text, ok := saved[name]; ok {
				return io.NopCloser(bytes.NewReader(text)), nil
			}
			return nil, fs.ErrNotExist
		})
	if err != nil {
		t.Fatal(err)
	}
	b := started(t, Config{Dir: other, Keys: keys})
	for _, i := range b.state.list() {
		s, err := b.backendOf(i)
		if err == nil {
			err = s.ensure(t.Context(), i)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return b, done
}

// connect opens the database of a binding.
func connect(t *testing.T, offering string, c creds) *sql.DB {
	t.Helper()
	if offering == MySQL {
		return my(t, c)
	}
	db, err := sql.Open("pgx", c.URI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
