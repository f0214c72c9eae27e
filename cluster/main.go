//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: cluster [FLAGS] run -- COMMAND [ARGUMENT…]
       cluster [FLAGS] up
       cluster down
       cluster [--schedule NODES] simulate NODE
`

// Directories of clusters. They contain images, so they are not in /tmp, which may
// be in memory.
const (
	parentDir = "/var/tmp"
	dirPrefix = "ingot-cluster-"
	// upDir is the directory of the cluster that `cluster up` starts.
	upDir = parentDir + "/" + dirPrefix + "up"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	var o options
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage); flags.PrintDefaults() }
	flags.StringVar(&o.tools, "tools", "../.tools/bin/kubernetes", "`directory` of the programs of Kubernetes")
	flags.IntVar(&o.nodes, "nodes", 2, "number of nodes; with 0 there is only an API server, and nodes are simulated")
	flags.StringVar(&o.keep, "logs", "", "`directory` for the logs of the cluster after a failure")
	takes := flags.Duration("takes", 0, "with simulate: how long a bound Pod takes until its container runs")
	schedule := flags.String("schedule", "", "with simulate: also bind Pods to these `nodes`, separated by commas")
	flags.Func("image", "import this image `file` on every node; can be repeated", func(s string) error {
		file, err := filepath.Abs(s)
		o.images = append(o.images, file)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return 2
	}
	args = flags.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	var err error
	switch {
	case len(args) > 1 && args[0] == "run":
		var code int
		if code, err = runWith(ctx, o, slices.DeleteFunc(args[1:2], func(s string) bool { return s == "--" }),
			args[2:]); err == nil {
			return code
		}
	case len(args) == 1 && args[0] == "up":
		err = up(ctx, os.Args[1:])
	case len(args) == 1 && args[0] == "serve": // the process behind `cluster up`
		err = serve(ctx, o)
	case len(args) == 1 && args[0] == "down":
		err = down()
	case len(args) == 2 && args[0] == "simulate":
		err = simulate(ctx, os.Getenv("KUBECONFIG"), args[1],
			slices.DeleteFunc(strings.Split(*schedule, ","), func(node string) bool { return node == "" }), *takes)
	default:
		flags.Usage()
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
	return 0
}

// runWith starts a cluster, runs a command with it, and stops it. It returns the
// command's exit code.
func runWith(ctx context.Context, o options, first, rest []string) (code int, err error) {
	command := slices.Concat(first, rest)
	if len(command) == 0 {
		return 2, errors.New("no command")
	}
	sweep()
	dir, err := os.MkdirTemp(parentDir, dirPrefix)
	if err != nil {
		return 1, err
	}
	began := time.Now()
	c, err := start(ctx, dir, o)
	if err != nil {
		return 1, err
	}
	fmt.Fprintf(os.Stderr, "cluster: %d nodes ready after %.1f s\n", o.nodes, time.Since(began).Seconds())
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), c.Environment...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	err = cmd.Run()
	if err != nil {
		c.keepLogs(o.keep)
	}
	if left := c.stop(); left != nil {
		return 1, left
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// up starts a cluster in the background and prints its environment.
func up(ctx context.Context, args []string) error {
	sweep()
	if err := os.Mkdir(upDir, 0o711); err != nil {
		return fmt.Errorf("is a cluster running? Stop it with: cluster down (%w)", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// Its output goes to a file, because this process ends before it.
	log, err := os.Create(filepath.Join(upDir, "serve.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	args = append(slices.Clone(args[:len(args)-1]), "serve")
	cmd := exec.Command(self, args...) //nolint:noctx // it outlives this process
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if env, err := os.ReadFile(filepath.Join(upDir, "environment")); err == nil {
			fmt.Fprintf(os.Stdout, "%s", env)
			return nil
		}
		select {
		case <-tick.C:
		case err := <-ended:
			text, _ := os.ReadFile(log.Name())
			return errors.Join(fmt.Errorf("it did not start: %w\n%s", err, text), down())
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), cmd.Process.Signal(syscall.SIGTERM), <-ended)
		}
	}
}

// serve runs the cluster of `cluster up` until a signal.
func serve(ctx context.Context, o options) error {
	c, err := start(ctx, upDir, o)
	if err != nil {
		return err
	}
	// Written elsewhere first: its existence means that the cluster is ready.
	var text strings.Builder
	for _, variable := range c.Environment {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&text, "export %s=%q\n", name, value)
	}
	file := filepath.Join(upDir, "environment")
	err = os.WriteFile(file+".new", []byte(text.String()), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, c.stop())
}

// down stops the cluster of `cluster up`, and removes what is left of others.
func down() error {
	s, err := readState(upDir)
	if errors.Is(err, os.ErrNotExist) {
		os.RemoveAll(upDir) // nothing was started
	} else if err == nil && s.Supervisor.alive() {
		if err := s.Supervisor.signal(syscall.SIGTERM); err != nil {
			return err
		}
		s.Supervisor.wait(2 * time.Minute)
	}
	sweep()
	if _, err := os.Stat(upDir); err == nil {
		return errors.New("it did not stop: see " + upDir)
	}
	return nil
}

// sweep removes what is left of clusters whose supervisor was killed.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(parentDir, dirPrefix+"*"))
	for _, dir := range dirs {
		s, err := readState(dir)
		if err != nil || s.Supervisor.alive() {
			continue
		}
		fmt.Fprintln(os.Stderr, "cluster: removing what is left in", dir)
		if err := s.clean(); err != nil {
			fmt.Fprintln(os.Stderr, "cluster:", err)
		}
	}
}
