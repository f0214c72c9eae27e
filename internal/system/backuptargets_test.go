//go:build unix

package system

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform/storage/blob/s3/s3test"
	"ingot/internal/server/installation"
)

// TestBackupToBucket backs up a server whose blobs are in a bucket to a bucket.
func TestBackupToBucket(t *testing.T) {
	t.Parallel()
	blobs, backups := s3test.New(t), s3test.New(t)
	f := startBackedUp(t, func(c *Config) { c.BlobURL = blobs.BlobURL() })
	first := f.backup(backups.BlobURL())
	second := f.backup(backups.BlobURL())
	if first.Blobs != 2 || second.Added != second.Size {
		t.Errorf("the first has %d blobs, the second added %d to %d: want two, and nothing but the archive", first.Blobs,
			second.Added, second.Size)
	}
	if _, err := Parts().Verify(t.Context(), backups.BlobURL(), "", f.key, discard); err != nil {
		t.Error(err)
	}
	f.stopApps()
	elsewhere := s3test.New(t)
	g := f.restored(backups.BlobURL(), func(c *Config, r *installation.RestoreConfig) {
		c.BlobURL, r.BlobURL = elsewhere.BlobURL(), elsewhere.BlobURL()
	})
	g.stopApps()
	g = f.restored(backups.BlobURL(), func(c *Config, r *installation.RestoreConfig) {
		c.BlobURL, r.BlobURL, r.ID = "",
			"", first.ID
	})
	g.stopApps()
	backups.Fail(s3test.Away)
	if _, err := Parts().Backup(t.Context(), f.config(backups.BlobURL())); err == nil {
		t.Error("a backup to a bucket that is away succeeds")
	}
}

// TestBackupOfPostgres backs up and restores a server with PostgreSQL, without its data
// directory too.
func TestBackupOfPostgres(t *testing.T) {
	t.Parallel()
	bucket := s3test.New(t)
	f := startBackedUp(t, func(c *Config) { c.DatabaseURL, c.BlobURL = dbtest.URL(t, db.Postgres), bucket.BlobURL() })
	file := filepath.Join(t.TempDir(), "file.age")
	f.backup(file)
	m, err := Parts().Verify(t.Context(), file, "", f.key, discard)
	if err != nil || m.Position == "" || m.Database != "postgres" {
		t.Fatalf("%+v, %v, want a position of PostgreSQL", m, err)
	}
	a := call(t, http.MethodGet, f.Endpoints().Admin+"/metrics", "", nil)
	if !strings.Contains(a.body, "ingot_backup_last_attempt_success 1") {
		t.Error("the metrics do not show the backup")
	}
	// As a Job on Kubernetes does it: without the data directory.
	c := f.config(filepath.Join(t.TempDir(), "job.age"))
	c.DataDir = filepath.Join(t.TempDir(), "none")
	if _, err := Parts().Backup(t.Context(), c); err == nil ||
		!strings.Contains(err.Error(), "is not the data directory of a server") {
		t.Errorf("without a directory and a key: %v, want a refusal", err)
	}
	keys, err := os.ReadFile(filepath.Join(f.c.DataDir, datadir.KeysPath))
	if err != nil {
		t.Fatal(err)
	}
	c.EncryptionKey = string(keys) // a Secret has the whole file, with its comments
	if _, err := Parts().Backup(t.Context(), c); err != nil {
		t.Errorf("without a data directory: %v", err)
	}
	if m, err := Parts().Verify(t.Context(), c.Target, "", f.key, discard); err != nil || len(m.Blobs) != 2 ||
		len(m.Files) != 2 {
		t.Errorf("%+v, %v, want two blobs, the dump and the key", m, err)
	}
	dir := filepath.Join(t.TempDir(), "new")
	refused := func(url, want string) {
		t.Helper()
		c := f.restoreConfig(file, dir)
		c.DatabaseURL = url
		if err := Parts().Restore(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("to %q: %v, want %q", url, err, want)
		}
	}
	refused("", "name an empty database")
	refused(f.c.DatabaseURL, "uses this database: stop it first")
	f.stopApps()
	refused(f.c.DatabaseURL, "already has rows")
	job := f.restoreConfig(c.Target, filepath.Join(t.TempDir(), "of-the-job"))
	job.DatabaseURL = dbtest.URL(t, db.Postgres)
	if err := Parts().Restore(t.Context(), job); err != nil {
		t.Error(err)
	}
	was, err := datadir.ReadKeys(f.c.DataDir, "")
	if is, err2 := datadir.ReadKeys(job.DataDir, ""); err != nil || err2 != nil || is.Primary() != was.Primary() {
		t.Errorf("the keys of the Job's backup: %v, %v, want those of the server", err, err2)
	}
	g := f.restored(file, func(c *Config, r *installation.RestoreConfig) {
		c.DatabaseURL = dbtest.URL(t, db.Postgres)
		r.DatabaseURL = c.DatabaseURL
	})
	g.stopApps()
}
