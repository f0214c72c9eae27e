package testkit

import (
	"io/fs"
	"os"
	"testing"
)

// CheckMode fails the test if a file does not have these permissions.
func CheckMode(t testing.TB, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Error(err)
	} else if got := info.Mode().Perm(); got != want {
		t.Errorf("mode of %s is %v, want %v", path, got, want)
	}
}
