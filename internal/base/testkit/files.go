package testkit

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// CheckMode fails the test if a file does not have these permissions. Windows has other
// ones, which files get from their folder.
func CheckMode(t testing.TB, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Error(err)
	} else if got := info.Mode().Perm(); got != want && runtime.GOOS != "windows" {
		t.Errorf("mode of %s is %v, want %v", path, got, want)
	}
}

// WriteProgram writes a file that is run afterwards. A process that another test starts
// meanwhile would have the file open for writing until it runs another program, and until
// then the file could not be run.
func WriteProgram(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte(text), 0o755) //nolint:gosec // a program
	syscall.ForkLock.RUnlock()
	Must(t, err)
}
