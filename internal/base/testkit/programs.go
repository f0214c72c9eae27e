package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

var programs string

// Programs returns the folder with the small programs that instances need
// (ingot-init, ingot-builder, ingot-static, ingot-sftp). TestMain has to build them
// with WithPrograms.
func Programs(tb testing.TB) string {
	tb.Helper()
	if programs == "" {
		tb.Fatal("TestMain has to call testkit.WithPrograms")
	}
	return programs
}

// WithPrograms builds the programs, calls run, which runs the tests and returns
// their status, and removes the programs.
func WithPrograms(run func() int) int {
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
	programs = made
	return run()
}
