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
//	ingot support-bundle          collect what a bug report needs
//	ingot man, version, help
//	ingot push, logs, ...         the client, see internal/cli
//
// Called as cf, it is the client alone. The program for macOS and Windows has no
// server: what only Linux has is in files whose names end in _linux.
//
// The exit status is 0 on success and after a requested stop, 1 after a failure,
// and 2 for incorrect usage. Messages for users go to standard output, the log
// to standard error.
//
// This package parses arguments and handles signals. It imports internal/system,
// which assembles the server, and internal/cli, the client.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"ingot/internal/cli"
	"ingot/internal/cli/core"
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
	environment := getenv
	if !prepareConsole() {
		environment = func(name string) string {
			if name == "TERM" {
				return "dumb"
			}
			return getenv(name)
		}
	}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	p := &process{
		name: os.Args[0], in: os.Stdin,
		args: os.Args[1:], getenv: environment, uid: os.Getuid(), out: os.Stdout, err: os.Stderr,
		terminal: term.IsTerminal(int(os.Stderr.Fd())), signals: signals, exit: os.Exit,
	}
	if status, done := p.begin(); done {
		os.Exit(status)
	}
	os.Exit(p.run())
}

// run executes the command line and returns the exit code.
func (p *process) run() int {
	p.askedForHelp()
	if p.forClient() {
		return p.client()
	}
	o, command, err := p.parse()
	if err == nil {
		switch command {
		case "broker check":
			err = p.checkBroker(o.Broker.Check)
		case "man":
			err = p.man(o.Man)
		case "version":
			fmt.Fprint(p.out, versionText())
		default:
			err = p.serverCommand(o, command)
		}
	}
	var help *errHelp
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &help):
		// A name can belong to both: the commands of the client come first.
		if own := cli.Help(&core.Env{Program: p.program()}, command); own != "" {
			fmt.Fprintf(p.out, "%s\nWithout COMMAND:\n\n", own)
		}
		fmt.Fprintln(p.out, help.text)
		return exitOK
	case errors.As(err, &usage):
		hint := "ingot help"
		if usage.command != "" {
			hint = "ingot " + usage.command + " --help"
		}
		fmt.Fprintf(p.err, "ingot: %s (see: %s)\n", usage.problem, hint)
		return exitUsage
	}
	fmt.Fprintf(p.err, "ingot: %s\n", strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitFailure
}
