// Ingot-init is the first process of every app instance: it runs the main
// process and its sidecars, records their output, checks their health, and
// stops them together.
//
//	ingot-init [--records DIR|-] CONTROL_DIR
//	ingot-init --agent [--home DIR]
//	ingot-init --hold NAME
//
// It reads CONTROL_DIR/spec.json and writes CONTROL_DIR/state.json and the
// records, by default to the directory CONTROL_DIR/records; "-" is standard
// output. SIGTERM and SIGINT stop the instance gracefully. It exits with the
// status of the instance, with 1 if it could not start, and with 2 for incorrect
// usage.
//
// With --agent it serves the servers of an installation over the network instead, on another
// machine: everything of the instance arrives with its launch, and records and state are
// asked for; see package agentserver. Its environment is that of package agentproto.
//
// With --hold it keeps the files open that it inherits until it is killed: the container engine
// leaves the firewall of instances to it while no server runs.
//
// It may be the first process of a container, or a plain child process. As a
// child it adopts the orphans of its members, so that none outlives it. Set
// GOMAXPROCS=1 in its environment to save memory on large machines; members do
// not inherit that.
//
//	main        arguments, runtime settings
//	machine     the life cycle: a pure state machine
//	supervisor  executes the machine's actions and feeds it events
//	recorder    writes state and events
//	output      reads the members' output lines
//	check       runs health and readiness checks
//	process     starts, signals and reaps processes
//	groups      starts members in their own control groups
//	tls         terminates TLS for the app
//	agent       runs an instance for package agentserver
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"ingot/internal/platform/instance/initproto"
)

const (
	exitFailure = 1
	exitUsage   = 2
)

func init() {
	// Without a pid namespace, members die with the thread that started them.
	// That is the main thread, which lives as long as the process.
	runtime.LockOSThread()
}

func main() {
	// Every instance has an ingot-init, and it has little to do: small rather
	// than fast.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	if len(args) == 1 && args[0] == enterArg {
		return runEnter()
	}
	if len(args) == 2 && args[0] == initproto.HoldArg {
		for {
			time.Sleep(time.Hour)
		}
	}
	flags := flag.NewFlagSet("ingot-init", flag.ContinueOnError)
	records := flags.String("records", "", "the `directory` for records; - is standard output")
	agent := flags.Bool("agent", false, "serve the servers of an installation over the network")
	home := flags.String("home", "/home/vcap", "with --agent: the home `directory` of the instance")
	if err := flags.Parse(args); err != nil || *agent != (flags.NArg() == 0) || flags.NArg() > 1 {
		fmt.Fprintln(os.Stderr, "usage: ingot-init [--records DIR|-] CONTROL_DIR\n       ingot-init --agent [--home DIR]")
		return exitUsage
	}
	var status int
	var err error
	if *agent {
		status, err = runAgent(*home)
	} else {
		status, err = supervise(flags.Arg(0), *records)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ingot-init:", err)
		return exitFailure
	}
	return status
}

// supervise runs the instance until it ends.
func supervise(dir, records string) (status int, err error) {
	spec, err := initproto.ReadSpec(dir)
	if err != nil {
		return 0, fmt.Errorf("reading the spec: %w", err)
	}
	var w *initproto.Writer
	switch records {
	case "-":
		w = initproto.NewStreamWriter(os.Stdout)
	case "":
		records = filepath.Join(dir, initproto.RecordsDir)
		fallthrough
	default:
		if w, err = initproto.OpenWriter(records, initproto.WriterOptions{}); err != nil {
			return 0, err
		}
	}
	s, err := newSupervisor(spec, func(st initproto.State) error { return initproto.WriteState(dir, st) }, w)
	if err != nil {
		return 0, err
	}
	status = s.run()
	if err := w.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "ingot-init: closing the records:", err)
	}
	return status, nil
}
