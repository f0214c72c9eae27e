//go:build linux

package container_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/enginetest"
)

// TestLeftTrial: a trial container whose removal fails is removed later, by a check before another trial, or when the
// engine is closed. Until then nothing starts.
func TestLeftTrial(t *testing.T) {
	t.Parallel()
	need(t)
	const trial = "trial-x"
	for name, again := range map[string]func(t *testing.T, e *container.Engine){
		"check": func(t *testing.T, e *container.Engine) {
			t.Helper()
			if err := e.Check(t.Context()); err != nil {
				t.Errorf("the check after the cause has gone: %v", err)
			}
			start(t, e, idle("b"))
			testkit.Must(t, e.Remove(t.Context(), "b"))
		},
		"close": func(*testing.T, *container.Engine) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := enginetest.TempDir(t)
			e := open(t, dir)
			start(t, e, idle(trial))
			// A directory in the place of this file cannot be removed while it has an entry.
			meta := filepath.Join(dir, "instances", trial, "instance.json")
			testkit.Must(t, os.Remove(meta))
			testkit.Must(t, os.MkdirAll(filepath.Join(meta, "full"), 0o700))
			container.LeaveTrial(e, trial)
			testkit.Must(t, e.Tried(t.Context()))
			if held := e.Describe().Held; held == "" {
				t.Error("the engine starts instances while the trial container is left")
			}
			if err := e.Check(t.Context()); err == nil {
				t.Error("the check succeeds while the trial container is left")
			}
			left, err := filepath.Glob(filepath.Join(dir, "instances", "trial-*"))
			if err != nil || len(left) != 1 {
				t.Errorf("%q are left, %v, want %s only", left, err, trial)
			}
			testkit.Must(t, os.RemoveAll(meta))
			again(t, e)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left over:\n%s", strings.Join(left, "\n"))
			}
		})
	}
}
