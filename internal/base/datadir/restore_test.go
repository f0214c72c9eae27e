package datadir_test

import (
	"os"
	"path/filepath"
	"testing"

	"ingot/internal/base/datadir"
)

// TestRestoreRemovesNothingElse: only what an interrupted restore left is removed. A
// directory with the same name, made for another purpose, is not one of a restore.
func TestRestoreRemovesNothingElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{".restore/letter", "photo"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := datadir.BeginRestore(dir); err == nil {
		t.Error("a restore into a directory in use began, want a refusal")
	}
	for _, name := range []string{".restore/letter", "photo"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s was removed: %v", name, err)
		}
	}
}

// TestRestoreBeginsAnew: what a killed restore left, at any of its steps, is removed by the
// next one.
func TestRestoreBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, left := range [][]string{{".restore/"}, {".restore/ingot-restore"},
		{".restore/ingot-restore", ".restore/secrets/key", "blobs/one"}} {
		dir := t.TempDir()
		for _, name := range left {
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if name[len(name)-1] == '/' {
				err := os.MkdirAll(file, 0o700)
				if err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := datadir.BeginRestore(dir)
		if err != nil {
			t.Errorf("with %q left: %v", left, err)
			continue
		}
		if err := os.WriteFile(filepath.Join(r.Dir(), "restored"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := r.Commit(); err != nil {
			t.Errorf("with %q left: %v", left, err)
		}
		for name, want := range map[string]bool{"restored": true, ".restore": false, "blobs": false} {
			if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
				t.Errorf("with %q left, there is %s: %v, want %v", left, name, err == nil, want)
			}
		}
	}
}
