//go:build unix

package pgproc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/db/dbtest/pgproc"
	"ingot/internal/base/testkit"
)

const ownerVariable = "INGOT_PGPROC_TEST_OWNER"

// TestMain lets the test binary play the process that owns a server and then
// ends in some way.
func TestMain(m *testing.M) {
	how := os.Getenv(ownerVariable)
	if how == "" {
		os.Exit(m.Run())
	}
	s, err := pgproc.Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	fmt.Fprintln(os.Stdout, s.Dir)
	switch how {
	case "exit":
		os.Exit(0)
	case "panic":
		panic("boom")
	default:
		select {}
	}
}

func need(t *testing.T) {
	t.Helper()
	if os.Getenv("INGOT_TEST_NO_POSTGRES") == "1" {
		t.Skip("INGOT_TEST_NO_POSTGRES is set")
	}
}

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	need(t)
	for _, how := range []string{"exit", "panic", "killed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), ownerVariable+"="+how)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			dir := strings.TrimSpace(line)
			if err != nil || dir == "" {
				t.Fatalf("no server: %q, %v, %v", line, err, cmd.Wait())
			}
			postmaster := pid(dir) // unreadable when it is gone already
			if how == "killed" {
				if postmaster == 0 {
					t.Error("no postmaster while its owner lives")
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			cmd.Wait() //nolint:errcheck // it does not end well, on purpose
			testkit.Eventually(t, "the directory is gone", func() bool {
				_, err := os.Stat(dir)
				return errors.Is(err, os.ErrNotExist)
			})
			if postmaster != 0 {
				testkit.Eventually(t, "the server is gone", func() bool {
					return errors.Is(syscall.Kill(postmaster, 0), syscall.ESRCH)
				})
			}
		})
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	need(t)
	s, err := pgproc.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.CheckMode(t, s.Dir, 0o700)
	s.Stop()
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

func TestStartGivesUp(t *testing.T) {
	t.Parallel()
	need(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := pgproc.Start(ctx); err == nil {
		s.Stop()
		t.Error("started without a chance to")
	}
}

func pid(dir string) int {
	text, _ := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	first, _, _ := strings.Cut(string(text), "\n")
	n, _ := strconv.Atoi(first)
	return n
}
