package datadir

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/version"
)

var discard = slog.New(slog.DiscardHandler)

// A server that was killed leaves its files, and a lock that no process holds.
func TestLockOfAKilledServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := Open(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	_ = d.lock.Close() // what the system does for a process that is gone
	if pid, err := os.ReadFile(filepath.Join(dir, "lock")); err != nil || len(pid) == 0 {
		t.Fatalf("the pid is not in the file: %q, %v", pid, err)
	}
	again, err := Open(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestDataDirVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content string   // of version.json; "" means none
		refused []string // what the message names; nil means accepted
	}{
		"new":     {"", nil},
		"same":    {`{"format":1,"ingot":"dev"}`, nil},
		"renamed": {`{"format":1,"ingot":"other"}`, nil},
		"newer":   {`{"format":99,"ingot":"v9.9"}`, []string{"format 99", "v9.9", "format 1", "--data-dir"}},
		"broken":  {`{"format"`, []string{"version.json", "backup"}},
		"empty":   {`{}`, []string{"version.json"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			path := filepath.Join(dir, "version.json")
			if tc.content != "" {
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d, err := Open(dir, discard)
			if tc.refused == nil {
				if err != nil {
					t.Fatal(err)
				}
				d.Close()
				var found versionFile
				text, _ := os.ReadFile(path)
				if err := json.Unmarshal(text, &found); err != nil || found != (versionFile{version.DataFormat, version.Version}) {
					t.Errorf("version file is %s, %v, want this version", text, err)
				}
				if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
					t.Errorf("mode %v", info.Mode())
				}
				return
			}
			for _, word := range tc.refused {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("got %v, want it to name %q", err, word)
				}
			}
			if text, _ := os.ReadFile(path); string(text) != tc.content {
				t.Errorf("it was changed to %s", text)
			}
			// The lock is free again.
			lock, err := acquire(dir)
			if err != nil {
				t.Fatal(err)
			}
			_ = lock.Close()
		})
	}
}

// Secrets that exist are kept, whatever the options say; files that others can
// read, and keys that are lost, are refused.
func TestSecrets(t *testing.T) {
	t.Parallel()
	d, err := Open(t.TempDir(), discard)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	database := d.File("a.db")
	o := SecretOptions{DatabaseURL: "sqlite:" + database, Clients: []string{"a-client"}, AdminPassword: "chosen",
		Log: discard}
	first, err := d.Secrets(o)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Generated{AdminClientSecret: first.AdminClientSecret}); first.AdminPassword != "chosen" ||
		first.AdminClientSecret == "" || first.Clients["a-client"] == "" || first.Generated != want {
		t.Errorf("first secrets are %+v, want the chosen password, and that only the client secret was generated", first)
	}
	o.AdminPassword, o.AdminClientSecret = "another", "another"
	second, err := d.Secrets(o)
	if err != nil {
		t.Fatal(err)
	}
	if second.AdminPassword != first.AdminPassword || second.AdminClientSecret != first.AdminClientSecret ||
		second.Clients["a-client"] != first.Clients["a-client"] || second.Generated != (Generated{}) {
		t.Errorf("second secrets are %+v, want %+v, none generated", second, first)
	}
	if err := os.Chmod(d.File(SecretsDir, "a-client"), 0o640); err != nil { //nolint:gosec // what is refused
		t.Fatal(err)
	}
	if _, err := d.Secrets(o); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("secret with mode 0640: error is %v, want one that says chmod 600", err)
	}
	if err := os.WriteFile(database, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.File(SecretsDir, keysFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Secrets(o); err == nil || !strings.Contains(err.Error(), "the encryption keys are missing") {
		t.Errorf("without the keys of a database: error is %v, want that they are missing", err)
	}
}

// TakeOver refuses a directory that no server has used.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	if _, _, err := TakeOver(t.Context(), path); err == nil ||
		!strings.Contains(err.Error(), "is not the data directory") {
		t.Errorf("empty directory: error is %v, want that it is not a data directory", err)
	}
	d, err := Open(path, discard)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	d, stopped, err := TakeOver(t.Context(), path)
	if err != nil || stopped != 0 {
		t.Fatalf("directory without a server: stopped %d, %v, want 0", stopped, err)
	}
	d.Close()
}
