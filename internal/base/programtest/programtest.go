package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

var dir string

// Dir returns the directory of the programs.
func Dir(tb testing.TB) string {
	tb.Helper()
	if dir == "" {
		tb.Fatal("TestMain has to call programtest.Run")
	}
	return dir
}

// Run builds the programs, calls run, which runs the tests and returns their
// status, and removes the programs.
func Run(run func() int) int {
	made, err := os.MkdirTemp("", "ingot-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(made)
	// The users of instances have to enter it.
	if err := os.Chmod(made, 0o755); err != nil { //nolint:gosec // nothing secret is in it
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-trimpath", "-o", made, "ingot/cmd/ingot-init", "ingot/cmd/ingot-builder", "ingot/cmd/ingot-static", "ingot/cmd/ingot-sftp") //nolint:noctx // ends by itself
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	dir = made
	return run()
}
