package system

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/base/version"
)

var discard = slog.New(slog.DiscardHandler)

func TestSecondServerIsRefused(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	first := startSystem(t, c)
	second := newSystem(t, c)
	err := second.Start(t.Context())
	want := fmt.Sprintf("another ingot (pid %d) is already using %s; stop it or choose another --data-dir", os.Getpid(), c.DataDir)
	if err == nil || err.Error() != want {
		t.Fatalf("got  %v\nwant %s", err, want)
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, endpointsFile)); err != nil {
		t.Errorf("the refused server took the first one's file away: %v", err)
	}
	first.Stop()
	startSystem(t, c)
}

// A server that was killed leaves its files, and a lock that no process holds.
func TestLockOfAKilledServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := openDataDir(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	_ = d.lock.Close() // what the system does for a process that is gone
	if pid, err := os.ReadFile(filepath.Join(dir, "lock")); err != nil || len(pid) == 0 {
		t.Fatalf("the pid is not in the file: %q, %v", pid, err)
	}
	again, err := openDataDir(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	again.close()
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
			d, err := openDataDir(dir, discard)
			if tc.refused == nil {
				if err != nil {
					t.Fatal(err)
				}
				d.close()
				var found versionFile
				text, _ := os.ReadFile(path)
				if err := json.Unmarshal(text, &found); err != nil || found != (versionFile{version.DataFormat, version.Version}) {
					t.Errorf("version file is %s, %v, want this version", text, err)
				}
				testkit.CheckMode(t, dir, 0o700)
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
			lock, err := lockDataDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			_ = lock.Close()
		})
	}
}
