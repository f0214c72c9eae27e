//go:build linux

package agenttest_test

import (
	"os"
	"syscall"
	"testing"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent/agenttest"
	"ingot/internal/platform/engine/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func newEngine(t *testing.T, dir string) engine.Engine {
	t.Helper()
	e, err := agenttest.New(dir, enginetest.InitPath())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func options() enginetest.Options {
	return enginetest.Options{
		KillInit: func(t *testing.T, dir string, _ engine.Engine, id string) {
			t.Helper()
			first, err := agenttest.First(dir, id)
			if err == nil {
				err = first.Signal(syscall.SIGKILL)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		Leftovers: func(_ *testing.T, dir string) []string { return agenttest.Leftovers(dir) },
	}
}

// TestEngine runs the engine suite over the protocol.
func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, newEngine, options())
}

// TestEngineUser runs it with agents of a user without privileges, as in a Pod.
func TestEngineUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run processes of another user")
	}
	o := options()
	o.User, o.Group = 65112, 65112 // unused
	enginetest.Run(t, newEngine, o)
}
