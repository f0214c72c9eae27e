package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
)

// Options describe the engine under test and the machine.
type Options struct {
	// User and Group are the ids of members; 0 means the engine's default. The suite
	// expects that they are not root's when they are set.
	User, Group int
	// KillInit kills ingot-init of an instance with SIGKILL, from outside.
	KillInit func(t *testing.T, dir string, e engine.Engine, id string)
	// Leftovers lists what is left of an engine on that directory: processes, mounts,
	// control groups, network links. It is called after all instances were removed and the
	// engine was closed, and may wait a little for what ends by itself.
	Leftovers func(t *testing.T, dir string) []string
	// OpenNetwork means that instances can reach each other, because this machine's network
	// does not enforce policies.
	OpenNetwork bool
	// Whole means that an instance ends as a whole when the kernel kills one of its processes because
	// memory ran out.
	Whole bool
	// Many is the number of concurrent instances in the test of that; 20 if 0.
	Many int
}

// New opens an engine on a directory, which exists and may hold the data of an engine that
// was opened on it before. The suite closes it.
type New func(t *testing.T, dir string) engine.Engine

// programs is the directory where Main builds the programs of the suite, unless
// ProgramsVariable names one.
var programs string

// ProgramsVariable is set by tests that run themselves as another process.
const ProgramsVariable = "ENGINETEST_PROGRAMS"

// Main builds the suite's programs, runs the tests and removes them. It is the
// TestMain of an engine.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if programs = os.Getenv(ProgramsVariable); programs != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "enginetest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	if err := testkit.Build(dir, "ingot/cmd/ingot-init", "ingot/internal/platform/engine/enginetest/member"); err != nil {
		fmt.Fprintln(os.Stderr, "enginetest:", err)
		return 1
	}
	return m.Run()
}

// InitPath returns the path of the ingot-init that Main has built.
func InitPath() string { return filepath.Join(programs, "ingot-init") }

// TempDir creates a directory for an engine, with a path short enough for sockets and open
// for members that run as another user.
func TempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "eng")
	testkit.Must(t, err)
	t.Cleanup(func() {
		// Shared archives are read-only, also for this process if it is not root.
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, _ error) error {
			if e != nil && e.IsDir() && os.Geteuid() != 0 {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	testkit.Must(t, os.Chmod(dir, 0o711))
	return dir
}

// Run runs the suite.
func Run(t *testing.T, newEngine New, o Options) {
	t.Helper()
	if programs == "" {
		t.Fatal("TestMain has to call enginetest.Main")
	}
	o.Many = cmp.Or(o.Many, 20)
	s := &suite{o: o, new: newEngine, dir: TempDir(t)}
	s.Engine = newEngine(t, s.dir)
	s.about = s.Describe()
	// One engine for all tests that do not close it, as in a server.
	t.Run("One", func(t *testing.T) {
		for _, c := range s.cases() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				if c.needs != nil && !c.needs(s.about) {
					t.Skipf("the %s engine does not do this", s.about.Name)
				}
				c.test(s, t)
			})
		}
	})
	s.nothingLeft(t)
	// Tests that close their engine.
	for _, c := range closing {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			own := &suite{o: o, new: newEngine, dir: TempDir(t), about: s.about}
			own.Engine = newEngine(t, own.dir)
			c.test(own, t)
			own.nothingLeft(t)
		})
	}
}

// suite is one engine under test.
type suite struct {
	engine.Engine
	o     Options
	new   New
	dir   string
	about engine.Description
}

type testCase struct {
	name  string
	needs func(engine.Description) bool // nil means every engine
	test  func(*suite, *testing.T)
}

func isolated(d engine.Description) bool { return d.Isolated }

func sharedPorts(d engine.Description) bool { return d.SharedPorts }

func (s *suite) cases() []testCase {
	return slices.Concat(lifeCases, memberCases, fileCases, netCases, execCases)
}

// nothingLeft checks that all tests have cleaned up, closes the engine, and checks that
// nothing is left of it.
func (s *suite) nothingLeft(t *testing.T) {
	t.Helper()
	list, err := s.List(context.Background(), nil)
	if err != nil {
		t.Error(err)
	}
	for _, i := range list {
		t.Errorf("instance %s was left", i.ID)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if s.o.Leftovers != nil {
		if left := s.o.Leftovers(t, s.dir); len(left) > 0 {
			t.Errorf("left over:\n%s", strings.Join(left, "\n"))
		}
	}
}

// reopen simulates a restart of the server.
func (s *suite) reopen(t *testing.T) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	s.Engine = s.new(t, s.dir)
}
