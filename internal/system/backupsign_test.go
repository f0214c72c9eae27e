//go:build unix

package system

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/server/backup"
	"ingot/internal/server/installation"
)

// forged are repositories that someone who can write to them has changed.
type forged struct{ unsigned, stranger, older, touched string }

// forge makes them of one with a backup.
func (f *backedUp) forge(many, id string) (all forged) {
	f.Helper()
	dir := f.TempDir()
	copied := func(name string) string {
		f.Helper()
		to := filepath.Join(dir, name)
		if err := os.CopyFS(to, os.DirFS(many)); err != nil {
			f.Fatal(err)
		}
		return to
	}
	made := func(to, by, name string) string {
		f.Helper()
		c := f.config(copied(name))
		c.Recipients, c.SigningKey = to, by
		if _, err := Parts().Backup(f.Context(), c); err != nil {
			f.Fatal(err)
		}
		return c.Target
	}
	all.unsigned = made(f.to, "", "unsigned")
	theirs, by, err := installation.NewBackupKey(filepath.Join(dir, "their-key"), "")
	if err != nil {
		f.Fatal(err)
	}
	all.stranger = made(f.to+","+theirs, by, "stranger")
	// The archive of the older backup gets the name of a newer one.
	all.older = made(f.to, f.by, "older")
	newer, err := Parts().List(f.Context(), all.older, discard)
	if err != nil || len(newer) != 2 {
		f.Fatalf("%d backups, %v, want two", len(newer), err)
	}
	archives := filepath.Join(all.older, "backups")
	if err := os.Rename(filepath.Join(archives, id+".age"), filepath.Join(archives, newer[1].ID+".age")); err != nil {
		f.Fatal(err)
	}
	// The index of the older backup gets a newer time.
	all.touched = copied("touched")
	objects, err := backup.NewFolder(all.touched)
	if err != nil {
		f.Fatal(err)
	}
	index, err := backup.Find(f.Context(), objects, id)
	if err != nil {
		f.Fatal(err)
	}
	index.Created = index.Created.Add(time.Hour)
	if err := backup.Commit(f.Context(), objects, index); err != nil {
		f.Fatal(err)
	}
	return all
}

// TestUnsignedBackup: a server without a signing key is backed up, and says so; a restore needs
// the word of the operator. The key may be in the data directory; one of another recipient is
// refused.
func TestUnsignedBackup(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	f := &backedUp{faultySite: &faultySite{T: t, System: startSystem(t, c)}, c: c}
	f.key.File = filepath.Join(t.TempDir(), "key")
	var err error
	if f.to, f.by, err = installation.NewBackupKey(f.key.File, ""); err != nil {
		t.Fatal(err)
	}
	by := f.by
	f.by = ""
	dir := filepath.Join(t.TempDir(), "backups")
	if state := f.backup(dir); !state.Unsigned {
		t.Errorf("%+v, want that it is not signed", state)
	}
	if last, err := Parts().Last(t.Context(), c.DataDir, "", discard); err != nil || !last.Unsigned {
		t.Errorf("the last backup is %+v, %v, want that it is not signed", last, err)
	}
	r := f.restoreConfig(dir, filepath.Join(t.TempDir(), "new"))
	if err := Parts().Restore(t.Context(), r); !errors.Is(err, backup.ErrUnsigned) {
		t.Errorf("restore: %v, want %v", err, backup.ErrUnsigned)
	}
	var said []string
	r.Key.AcceptUnsigned, r.Tell = true, func(line string) { said = append(said, line) }
	if err := Parts().Restore(t.Context(), r); err != nil || !strings.Contains(strings.Join(said, "\n"),
		"Warning: the backup is not signed") {
		t.Errorf("restore that accepts it: %v, %q, want a warning", err, said)
	}
	file := filepath.Join(c.DataDir, "secrets", "backup-signing-key")
	for text, want := range map[string]string{
		by + "\n": "",
		"":        "is empty",
		by[:40]:   "was not copied completely",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		state, err := Parts().Backup(t.Context(), f.config(dir))
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
				t.Errorf("with %d bytes in %s: %v, want %q", len(text), file, err, want)
			}
			continue
		}
		if err != nil || state.Unsigned {
			t.Errorf("with the key in the data directory: %+v, %v, want that it is signed", state, err)
		}
		if m, err := Parts().Verify(t.Context(), dir, state.ID, f.key, discard); err != nil || m.Signer == "" {
			t.Errorf("verify: %v, want that it is signed", err)
		}
	}
	_, other, err := installation.NewBackupKey(filepath.Join(t.TempDir(), "other"), "")
	if err != nil {
		t.Fatal(err)
	}
	f.by = other
	if _, err := Parts().Backup(t.Context(), f.config(dir)); err == nil ||
		!strings.Contains(err.Error(), "belongs to another key than those of the recipients") {
		t.Errorf("with the signing key of another recipient: %v, want that it is refused", err)
	}
}
