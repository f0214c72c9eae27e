//go:build linux

package process_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/engine/process"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func newEngine(t *testing.T, dir string) engine.Engine {
	t.Helper()
	e, err := process.New(process.Options{Root: filepath.Join(dir, "instances"), Init: enginetest.InitPath()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func options() enginetest.Options {
	return enginetest.Options{KillInit: killInit, Leftovers: leftovers}
}

// TestEngine runs the suite with members of the user who runs the tests.
func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, newEngine, options())
}

// TestEngineUser runs it with members of a user without privileges, as a server
// that is root does.
func TestEngineUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run processes of another user")
	}
	o := options()
	o.User, o.Group = 65111, 65111 // unused
	enginetest.Run(t, newEngine, o)
}

func killInit(t *testing.T, dir string, _ engine.Engine, id string) {
	t.Helper()
	var first local.ProcessID
	if err := local.ReadJSON(filepath.Join(dir, "instances", id, "control", "init.json"), &first); err != nil {
		t.Fatal(err)
	}
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// leftovers finds directories and processes of an engine: those that have its
// directory in their command, environment or as their working directory, and
// zombie children.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(time.Minute); ; {
		left = nil
		entries, err := os.ReadDir(filepath.Join(dir, "instances"))
		if err != nil {
			t.Error(err)
		}
		for _, e := range entries {
			left = append(left, "directory "+e.Name())
		}
		table, err := local.Processes()
		if err != nil {
			t.Fatal(err)
		}
		for pid, s := range table {
			zombie := s.Zombie() && s.Parent == os.Getpid()
			if pid != os.Getpid() && (zombie || mentions(pid, dir)) {
				left = append(left, fmt.Sprintf("process %d (%c)", pid, s.State))
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		<-time.After(10 * time.Millisecond)
	}
}

func mentions(pid int, dir string) bool {
	proc := "/proc/" + strconv.Itoa(pid)
	files := []string{filepath.Join(proc, "cmdline"), filepath.Join(proc, "environ")}
	// The first thread may have ended.
	threads, err := filepath.Glob(filepath.Join(proc, "task", "*", "environ"))
	if err != nil {
		panic(err)
	}
	for _, name := range append(files, threads...) {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(dir+"/")) {
			return true
		}
	}
	cwd, err := os.Readlink(filepath.Join(proc, "cwd"))
	return err == nil && strings.HasPrefix(cwd, dir+"/")
}
