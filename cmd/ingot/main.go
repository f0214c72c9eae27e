// Ingot is a Cloud Foundry compatible application platform and a notification
// service in one program.
//
//	ingot up                      run the server
//	ingot reload                  replace it by a new process, without failing requests
//	ingot down                    stop it, and the apps that outlive it
//	ingot notifications           run the notification service alone
//	ingot keys rotate-encryption  add a new encryption key
//	ingot keys rotate-agents      add new keys for instances on Kubernetes
//	ingot broker check URL        check a service broker for conformance
//	ingot blob copy               copy packages, droplets and buildpacks to another store
//	ingot db copy, db migrate     copy all data to another database, migrate one
//	ingot backup, restore         back up a running server, restore one
//	ingot man, version, help
//	ingot push, logs, ...         the client, see internal/cli
//
// Called as cf, it is the client alone.
//
// The exit status is 0 on success and after a requested stop, 1 after a failure,
// and 2 for incorrect usage. Messages for users go to standard output, the log
// to standard error.
//
// This package parses arguments and handles signals. It imports internal/system,
// which assembles the server, and internal/cli, the client.
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

// process is the environment of the program; tests provide their own.
type process struct {
	name     string // name by which it was called
	args     []string
	in       io.Reader
	getenv   func(string) string
	uid      int
	out, err io.Writer
	// terminal reports whether err is a terminal.
	terminal bool
	signals  <-chan os.Signal
	// exit terminates the process at once.
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
