package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
)

// Section is one group of figures.
type Section struct {
	Name string
	// About describes in one line what is measured and how.
	About string
	Run   func(ctx context.Context, r *Report) error
}

// sections lists all sections in the order they run.
var sections = []Section{
	startSection,
	memorySection,
	tokensSection,
	pushSection,
	dockerSection,
	revisionsSection,
	clientSection,
	gitSection,
	watchSection,
	instancesSection,
	crowdSection,
	membersSection,
	rulesSection,
	listsSection,
	growthSection,
	servicesSection,
	rotationSection,
	routerSection,
	bodiesSection,
	http2Section,
	idleSection,
	tcpSection,
	tlsSection,
	notificationsSection,
	personalSection,
	digestsSection,
	inboxSection,
	scheduleSection,
	logsSection,
	consoleSection,
	historySection,
}

// The exit codes.
const (
	exitOK     = 0
	exitMissed = 1 // a goal was missed, or a measurement failed
	exitUsage  = 2
)

var errInterrupted = errors.New("interrupted")

func main() {
	// A reader of the output that exits (| head) must not leave servers behind.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(errs)
	var (
		only     = flags.String("run", "", "run the sections whose name matches this `REGEXP`")
		jsonFile = flags.String("json", "", "also write the figures to this `FILE`")
		profiles = flags.String("profile", "", "write processor profiles of the server to this `DIR`, each of an extra round")
		database = flags.String("database", "", "measure notifications with this `DATABASE` only: SQLite or PostgreSQL")
		large    = flags.Bool("large", false, "also measure a send to a million recipients, which takes many minutes")
		short    = flags.Bool("short", false, "fewer and shorter rounds: a smoke test, not a measurement")
	)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	chosen, err := choose(*only)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if err == nil && !slices.Contains([]string{"", nameSQLite, namePostgres}, *database) {
		err = fmt.Errorf("-database: %q is neither %s nor %s", *database, nameSQLite, namePostgres)
	}
	if err != nil {
		fmt.Fprintf(errs, "bench: %s\n", err)
		return exitUsage
	}
	if err := measure(ctx, chosen, &Report{Short: *short, Large: *large, Database: *database, ProfileDir: *profiles,
		out: out}, *jsonFile); err != nil {
		fmt.Fprintf(errs, "bench: %s\n", err)
		return exitMissed
	}
	return exitOK
}

func choose(pattern string) ([]Section, error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	var chosen []Section
	var names []string
	for _, s := range sections {
		names = append(names, s.Name)
		if wanted.MatchString(s.Name) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-run: no section matches %q; sections: %v", pattern, names)
	}
	return chosen, nil
}

// measure runs the sections. It fails if a goal was missed.
func measure(ctx context.Context, chosen []Section, r *Report, jsonFile string) error {
	scratch, err := os.MkdirTemp("", "ingot-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	// Containers run as other users and need access.
	if err := os.Chmod(scratch, 0o711); err != nil {
		return err
	}
	if r.ProfileDir != "" {
		if err := os.MkdirAll(r.ProfileDir, 0o750); err != nil {
			return err
		}
	}
	r.Scratch = scratch
	if r.Binary, err = binary(ctx, scratch); err != nil {
		return err
	}
	r.begin(programVersion(ctx, r.Binary))
	for _, s := range chosen {
		r.enter(s)
		err := s.Run(ctx, r)
		if ctx.Err() != nil {
			err = errors.Join(errInterrupted, err)
		}
		r.leave(err)
		if ctx.Err() != nil {
			break // print what was measured so far
		}
	}
	problem := r.finish()
	if ctx.Err() != nil {
		problem = errInterrupted
	}
	if jsonFile != "" {
		problem = errors.Join(problem, r.writeJSON(jsonFile))
	}
	return problem
}
