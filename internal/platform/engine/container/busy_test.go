//go:build linux

package container_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
)

// TestBusyDisk removes an instance whose disk another program uses: nothing of the instance
// is left but what that program has open, and the error names the program.
func TestBusyDisk(t *testing.T) {
	t.Parallel()
	e, dir := opened(t, container.Options{})
	start(t, e, idle("a"))
	machine := containertest.Of(dir)
	file, err := os.Open(filepath.Join(filepath.Dir(machine.Runc()), "i", "a", "disk", "tmp"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	patience := container.LoopTime(e, 100*time.Millisecond)
	err = e.Remove(t.Context(), "a")
	container.LoopTime(e, patience)
	if want := fmt.Sprintf("process %d (", os.Getpid()); err == nil ||
		!strings.Contains(err.Error(), "instance a was removed, but its disk") || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want that the disk is in use by %q", err, want)
	}
	if _, err := e.Get(t.Context(), "a"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("after its removal: %v, want %v", err, engine.ErrNotFound)
	}
	for _, left := range machine.Left(t) {
		for _, kind := range []string{"process:", "directory: 1", "link: ig"} {
			if strings.HasPrefix(left, kind) && strings.Contains(left, "-") {
				t.Errorf("it left %s", left)
			}
		}
	}
	// The name can be used again, with its own disk.
	start(t, e, idle("a"))
	if out, status := inside(t, e, "a", "echo text >/tmp/file && cat /tmp/file"); status != 0 || out != "text" {
		t.Errorf("the next instance: output %q, exit status %d, want text", out, status)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the old disk is detached", func() bool {
		return !slices.ContainsFunc(machine.Left(t), func(left string) bool {
			return strings.HasPrefix(left, "loop device:") && strings.HasSuffix(left, "(deleted)")
		})
	})
}
