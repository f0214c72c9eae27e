// Ingot is a Cloud Foundry compatible application platform and a notification
// service in one program.
//
//	ingot up                      run the server
//	ingot down                    end it, and the apps that outlive it
//	ingot notifications           run the notification service alone
//	ingot keys rotate-encryption  add a new encryption key
//	ingot broker check URL        does a service broker conform?
//	ingot version, ingot help
//	ingot push, logs, ...         the client, see internal/cli
//
// Called by the name cf it is the client alone.
//
// It leaves with 0 when it was asked to stop, 1 after a failure, and 2 when it
// was called in a way it does not understand. What it tells people goes to
// standard output, its log to standard error.
//
// This package reads arguments and signals and imports internal/system, which
// is where everything is put together, and internal/cli, which is the client.
package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// The exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// process is the world around the program, so that tests can be it.
type process struct {
	name     string // as which it was called
	args     []string
	in       io.Reader
	getenv   func(string) string
	uid      int
	out, err io.Writer
	// terminal says whether err is one.
	terminal bool
	signals  <-chan os.Signal
	// exit ends the process at once.
	exit func(code int)
}

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	p := &process{
		name: os.Args[0], in: os.Stdin,
		args: os.Args[1:], getenv: os.Getenv, uid: os.Getuid(), out: os.Stdout, err: os.Stderr,
		terminal: term.IsTerminal(int(os.Stderr.Fd())), signals: signals, exit: os.Exit,
	}
	os.Exit(p.run())
}
