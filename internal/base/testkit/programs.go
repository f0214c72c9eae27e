package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	if err := Build(made, "ingot/cmd/ingot-init", "ingot/cmd/ingot-builder", "ingot/cmd/ingot-static",
		"ingot/cmd/ingot-sftp"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = made
	return run()
}

// programsVariable names a folder with programs of the product that are built
// already. The Makefile sets it, so that not every package builds them.
const programsVariable = "INGOT_TEST_PROGRAMS"

// Build builds programs into a folder, and lets all users enter it: instances run as
// other users.
func Build(dir string, packages ...string) error {
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // nothing secret is in it
		return err
	}
	ready := os.Getenv(programsVariable)
	var missing []string
	for _, p := range packages {
		name := filepath.Base(p)
		content, err := os.ReadFile(filepath.Join(ready, name))
		if ready == "" || err != nil {
			missing = append(missing, p)
		} else if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil { //nolint:gosec // a program
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	build := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", //nolint:noctx // ends by itself
		"-o", dir + "/"}, missing...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return nil
}
