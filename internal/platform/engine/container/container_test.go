//go:build linux

package container_test

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/engine/enginetest"
)

// hostSecret is in this process's environment and must not be in an instance's.
const hostSecret = "INGOT_TEST_SECRET"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		victim(dir)
		return
	}
	if err := os.Setenv(hostSecret, "of the host"); err != nil {
		panic(err)
	}
	enginetest.Main(m)
}

var probed = sync.OnceValue(func() error {
	return container.Probe(context.Background(), container.Options{Init: enginetest.InitPath()})
})

// need skips a test where containers cannot run, and says why.
func need(t *testing.T) {
	t.Helper()
	if err := probed(); err != nil {
		containertest.Missing(t, err)
	}
}

func open(t *testing.T, dir string) *container.Engine {
	t.Helper()
	e, err := container.New(t.Context(), container.Options{Root: dir, Init: enginetest.InitPath()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEngine(t *testing.T) {
	t.Parallel()
	need(t)
	enginetest.Run(t, func(t *testing.T, dir string) engine.Engine { return open(t, dir) }, enginetest.Options{
		User: 2000, Group: 2000,
		KillInit: killInit,
		Leftovers: func(t *testing.T, dir string) []string {
			t.Helper()
			return leftovers(t, dir)
		},
		Many:  10,
		Whole: version2(),
	})
}

func killInit(t *testing.T, dir string, _ engine.Engine, id string) {
	t.Helper()
	if err := syscall.Kill(containertest.Of(dir).InitPID(t, id), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// leftovers names everything on this machine that belongs to the engine of a
// directory.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	return containertest.Of(dir).Left(t)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
