//go:build unix

package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test binary be the program itself.
func TestMain(m *testing.M) {
	if os.Getenv("INGOT_PGSERVER_TEST") == "1" {
		os.Exit(run(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func program(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "INGOT_PGSERVER_TEST=1")
	return cmd
}

func TestRunsTheCommand(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_TEST_NO_POSTGRES") == "1" {
		t.Skip("INGOT_TEST_NO_POSTGRES is set")
	}
	cmd := program("--", "sh", "-c", `echo "$INGOT_TEST_POSTGRES_URL"; exit 7`)
	cmd.Env = append(cmd.Env, "INGOT_TEST_POSTGRES_URL=") // a server of its own
	out, _ := cmd.Output()
	if !strings.HasPrefix(string(out), "postgres://") || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("output %q, exit code %d; want a URL and 7", out, cmd.ProcessState.ExitCode())
	}
}

// TestSameURL: two runs in a row have the same URL, and two at once have different ones.
func TestSameURL(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_TEST_NO_POSTGRES") == "1" {
		t.Skip("INGOT_TEST_NO_POSTGRES is set")
	}
	dir, show := t.TempDir(), `echo "$INGOT_TEST_POSTGRES_URL"`
	run := func(script string) []string {
		cmd := program("--", "sh", "-c", script)
		cmd.Env, cmd.Dir = append(cmd.Env, "INGOT_TEST_POSTGRES_URL=", "PGSERVER="+os.Args[0]), dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	both := run(show + `; INGOT_TEST_POSTGRES_URL= "$PGSERVER" -- sh -c '` + show + `'`)
	again := run(show)
	if len(both) != 2 || both[0] == both[1] || len(again) != 1 || again[0] != both[0] {
		t.Errorf("two at once have %q, then one has %q", both, again)
	}
}

func TestUsesTheGivenServer(t *testing.T) {
	t.Parallel()
	cmd := program("sh", "-c", `echo "$INGOT_TEST_POSTGRES_URL"`)
	cmd.Env = append(cmd.Env, "INGOT_TEST_POSTGRES_URL=postgres://given")
	out, err := cmd.Output()
	if err != nil || string(out) != "postgres://given\n" {
		t.Errorf("output %q, %v", out, err)
	}
}

func TestPassesSignalsOn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		want   int
	}{
		"handled": {`trap 'exit 9' TERM; echo ready; while :; do read -r x || exit 1; done`, 9},
		"deadly":  {`echo ready; exec cat`, 128 + int(syscall.SIGTERM)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := program("--", "sh", "-c", tt.script)
			cmd.Env = append(cmd.Env, "INGOT_TEST_NO_POSTGRES=1")
			hold, err := cmd.StdinPipe() // open, so that the command waits
			if err != nil {
				t.Fatal(err)
			}
			defer hold.Close()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
				t.Fatalf("first line is %q, %v, want ready", line, err)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			cmd.Wait() //nolint:errcheck // the exit code is looked at
			if got := cmd.ProcessState.ExitCode(); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	cmd := program("--")
	cmd.Stderr = io.Discard
	cmd.Run() //nolint:errcheck // the exit code is looked at
	if got := cmd.ProcessState.ExitCode(); got != 2 {
		t.Errorf("exit code %d, want 2", got)
	}
}
