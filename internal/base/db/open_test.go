//go:build unix

package db_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
)

// The SQLite driver is C translated to Go, together with a C library of the same
// make. Its documentation asks for exactly the library version that its own
// go.mod names; another one compiles and then corrupts memory.
func TestLibcIsTheDriversOwn(t *testing.T) {
	t.Parallel()
	const want = "v1.77.1"
	// Not debug.ReadBuildInfo: a test binary does not list its modules.
	out, err := exec.Command("go", "list", "-f",
		"{{.Module.Version}}{{with .Module.Replace}} replaced by {{.Path}}{{end}}", "modernc.org/libc").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	if got := strings.TrimSpace(string(out)); got != want {
		t.Fatalf("modernc.org/libc is %s, want %s: modernc.org/sqlite must run with the libc that its own go.mod names. "+
			"Some other module has raised it (goose v3.29.0 does); keep that one back, or move driver and libc together", got,
			want)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tests := []struct{ url, part string }{
		{"", "must begin with"},
		{"mysql://root@host/x", "must begin with"},
		{"sqlite:", "no file name"},
		{"sqlite:" + dir + "/", "no file name"},
		{"sqlite::memory:", "memory"},
		{"sqlite:" + dir + "/x.db?cache=shared", "no parameters"},
		{"sqlite://x.db", "without slashes"},
		{"sqlite:" + dir + "/missing/x.db", "no such file"},
		{"sqlite:" + dir, ""},
		{"postgres://user:s3cr%et@host/db", "percent-encoded"},
		{"postgres://user:s3cret@host:port/db", ""},
		{"postgres://user:s3cret@host/db?sslmode=s3cret", ""},
		{"postgres://user:s3cret@127.0.0.1:1/db?connect_timeout=5", "127.0.0.1"},
		{"postgresql://user@127.0.0.1:1/db?password=s3cret", "127.0.0.1"},
		{"postgres://user:s3cret@127.0.0.1:1/s3cret", ""},
	}
	for _, tt := range tests {
		d, err := db.Open(t.Context(), db.Options{URL: tt.url})
		if err == nil {
			d.Close()
			t.Errorf("%s was opened", tt.url)
			continue
		}
		if !strings.Contains(err.Error(), tt.part) {
			t.Errorf("%s: %v, want %q in it", tt.url, err, tt.part)
		}
		if strings.Contains(err.Error(), "s3c") && !strings.HasSuffix(tt.url, "/s3cret") {
			t.Errorf("%s: the error shows the password: %v", tt.url, err)
		}
	}
	notOurs := filepath.Join(dir, "text.db")
	if err := os.WriteFile(notOurs, []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Open(t.Context(), db.Options{URL: "sqlite:" + notOurs}); err == nil ||
		!strings.Contains(err.Error(), notOurs) {
		t.Errorf("a text file was opened: %v", err)
	}
}

func TestSQLiteFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b#%41'ü")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x y.db")
	d := dbtest.Open(t, "sqlite:"+path)
	create(t, d)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		testkit.CheckMode(t, path+suffix, 0o600)
	}
	err := d.View(t.Context(), func(tx *db.Tx) error {
		for pragma, want := range map[string]string{"journal_mode": "wal", "foreign_keys": "1", "query_only": "1"} {
			var got string
			if err := tx.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
				return fmt.Errorf("%s is %s, %w; want %s", pragma, got, err, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	err = d.Update(t.Context(), func(tx *db.Tx) error {
		var got int
		if err := tx.QueryRow("PRAGMA synchronous").Scan(&got); err != nil || got != 2 {
			return fmt.Errorf("synchronous is %d, %w; want 2 (FULL)", got, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path + "-wal"); !os.IsNotExist(err) {
		t.Errorf("the WAL is still there after Close: %v", err)
	}
}

var counter = db.Migrations{Name: "counter", Files: fstest.MapFS{
	"00001_counter.sql": {Data: []byte(
		"-- +goose Up\nCREATE TABLE counter (id TEXT PRIMARY KEY, n BIGINT NOT NULL);\nINSERT INTO counter " +
			"VALUES ('a', 0);\n")},
	"00002_once.sql": {Data: []byte("-- +goose Up\nUPDATE counter SET n = n + 1;\n")},
}}

func create(t testing.TB, d *db.DB) {
	t.Helper()
	if err := d.Migrate(context.Background(), counter); err != nil {
		t.Fatal(err)
	}
}

func add(ctx context.Context, d *db.DB) error {
	return d.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE counter SET n = n + 1 WHERE id = ?", "a")
		return err
	})
}

// A file that was never applied is noticed, even if a newer one was.
func TestMigrationsAreComplete(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			d := dbtest.Open(t, dbtest.URL(t, dialect))
			newer := db.Migrations{Name: "counter", Files: fstest.MapFS{
				"00001_counter.sql": counter.Files.(fstest.MapFS)["00001_counter.sql"],
				"00003_later.sql":   {Data: []byte("-- +goose Up\nUPDATE counter SET n = n + 10;\n")},
			}}
			for range 2 { // the second finds nothing to do
				if err := d.Migrate(t.Context(), newer); err != nil {
					t.Fatal(err)
				}
			}
			newer.Files.(fstest.MapFS)["00002_once.sql"] = counter.Files.(fstest.MapFS)["00002_once.sql"]
			if err := d.Migrate(t.Context(), newer); err == nil || !strings.Contains(err.Error(), "missing") {
				t.Errorf("a file in between: error is %v, want that it is missing", err)
			}
		})
	}
}

// Several DBs on one database stand for several server processes: they migrate
// at once and write at once.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			address := dbtest.URL(t, dialect)
			const processes, each = 4, 10
			var wg sync.WaitGroup
			for range processes {
				d := dbtest.Open(t, address)
				wg.Go(func() {
					if err := d.Migrate(t.Context(), counter); err != nil {
						t.Error(err)
						return
					}
					for range each {
						if err := add(t.Context(), d); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			var n int
			err := dbtest.Open(t, address).View(t.Context(), func(tx *db.Tx) error {
				return tx.QueryRow("SELECT n FROM counter").Scan(&n)
			})
			if err != nil || n != processes*each+1 {
				t.Errorf("counted %d, %v; want %d", n, err, processes*each+1)
			}
		})
	}
}

// The SQLite writer of another process holds the lock for long: the context
// still ends the wait.
func TestBusyRespectsContext(t *testing.T) {
	t.Parallel()
	address := dbtest.URL(t, db.SQLite)
	a, b := dbtest.Open(t, address), dbtest.Open(t, address)
	create(t, a)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := a.Update(t.Context(), func(*db.Tx) error {
		if err := add(ctx, b); err == nil || ctx.Err() == nil {
			return fmt.Errorf("the second writer got in: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := add(t.Context(), b); err != nil {
		t.Error(err)
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			d := dbtest.New(b, dialect)
			create(b, d)
			for b.Loop() {
				if err := add(b.Context(), d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Sixteen writers: of different rows, as the requests of different users are,
// and of one row, the worst case for transactions that run again.
func BenchmarkCommitParallel(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) { benchmarkParallel(b, dialect, 1000) })
		b.Run(dialect.String()+"-one-row", func(b *testing.B) { benchmarkParallel(b, dialect, 1) })
	}
}

func benchmarkParallel(b *testing.B, dialect db.Dialect, rows int) {
	d := dbtest.New(b, dialect)
	create(b, d)
	err := d.Update(b.Context(), func(tx *db.Tx) error {
		for i := range rows {
			if _, err := tx.Exec("INSERT INTO counter VALUES (?, 0)", fmt.Sprint(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	var mu sync.Mutex
	next, runs := 0, 0
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			mu.Lock()
			next++
			id := fmt.Sprint(next % rows)
			mu.Unlock()
			err := d.Update(context.Background(), func(tx *db.Tx) error {
				mu.Lock()
				runs++
				mu.Unlock()
				var n int64
				if err := tx.QueryRow("SELECT n FROM counter WHERE id = ?", id).Scan(&n); err != nil {
					return err
				}
				_, err := tx.Exec("UPDATE counter SET n = ? WHERE id = ?", n+1, id)
				return err
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(runs)/float64(next), "runs/op")
}

func BenchmarkView(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			d := dbtest.New(b, dialect)
			create(b, d)
			for b.Loop() {
				err := d.View(b.Context(), func(tx *db.Tx) error {
					var n int
					return tx.QueryRow("SELECT n FROM counter WHERE id = ?", "a").Scan(&n)
				})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
