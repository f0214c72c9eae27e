//go:build unix

// Command pgserver runs a command with a private PostgreSQL server beside it:
//
//	go run ./internal/base/db/dbtest/pgserver -- go test ./...
//
// The command finds the server's URL in INGOT_TEST_POSTGRES_URL. Signals are
// forwarded to it, and pgserver exits with its exit code. No server is started
// when the variable is already set, or when INGOT_TEST_NO_POSTGRES is 1.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"ingot/internal/base/db/dbtest/pgproc"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: pgserver -- COMMAND [ARGUMENT…]")
		return 2
	}
	// From here on, so that a signal during the start stops the server too.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

	env := os.Environ()
	if os.Getenv(pgproc.URLVariable) == "" && os.Getenv("INGOT_TEST_NO_POSTGRES") != "1" {
		server, err := pgproc.Start(context.Background())
		if err != nil {
			fmt.Fprintln(os.Stderr, "pgserver:", err)
			return 1
		}
		defer server.Stop()
		address, remove := steady(server)
		defer remove()
		env = append(env, pgproc.URLVariable+"="+address)
	}

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "pgserver:", err)
		return 127
	}
	go func() {
		for s := range signals {
			cmd.Process.Signal(s) //nolint:errcheck // it may be gone already
		}
	}()
	return exitCode(cmd.Wait())
}

// steady returns the URL of a server that is the same each time, because the results of tests that read it are
// cached with its value: it goes through a link that is named after the working directory. While another run has
// that link, it is the server's own URL.
func steady(server *pgproc.Server) (address string, remove func()) {
	remove = func() {}
	dir, err := os.Getwd()
	if err != nil {
		return server.URL, remove
	}
	sum := sha256.Sum256([]byte(dir))
	link := filepath.Join(filepath.Dir(server.Dir), fmt.Sprintf("ingot-pg-of-%d-%x", os.Getuid(), sum[:6]))
	if _, err := os.Stat(link); errors.Is(err, os.ErrNotExist) {
		os.Remove(link) // of a run that was killed; its server is gone
	}
	if err := os.Symlink(server.Dir, link); err != nil {
		return server.URL, remove
	}
	return strings.ReplaceAll(server.URL, url.QueryEscape(server.Dir), url.QueryEscape(link)), func() { os.Remove(link) }
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, "pgserver:", err)
	return 1
}
