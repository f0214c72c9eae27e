package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// late is how long after its time a run counts as missed: the machine was asleep,
	// or its clock was changed.
	late = time.Minute
	// nap is how long to sleep at most before the clock is read again, because a timer
	// does not notice that the clock was changed.
	nap = 30 * time.Second
	// killAfter is how long a job has to stop.
	killAfter = 5 * time.Second
	// longestLine is where lines of output are split.
	longestLine = 32 << 10
)

// runner runs jobs. run and out are replaced in tests.
type runner struct {
	jobs []job
	run  func(ctx context.Context, j *job, stdout, stderr io.Writer) error

	mu          sync.Mutex
	out, errOut io.Writer
}

// printf writes a line of the runner's own about a job.
func (r *runner) printf(j *job, format string, args ...any) {
	r.line(r.out, j.name, fmt.Sprintf(format, args...))
}

func (r *runner) line(to io.Writer, name, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(to, "%s: %s\n", name, text)
}

// work runs all jobs until ctx is done, and returns when the last has ended.
func (r *runner) work(ctx context.Context) {
	var all sync.WaitGroup
	for i := range r.jobs {
		all.Go(func() { r.follow(ctx, &r.jobs[i]) })
	}
	all.Wait()
}

// follow runs one job at its times. A run that is due while the one before still runs
// is missed: runs of a job never overlap.
func (r *runner) follow(ctx context.Context, j *job) {
	var running chan struct{} // closed at the end of the current run
	owed := false             // a missed run to catch up with
	start := func() {
		done := make(chan struct{})
		running, owed = done, false
		go func() {
			defer close(done)
			r.once(ctx, j)
		}()
	}
	due := j.schedule.next(time.Now())
	for !due.IsZero() {
		timer := time.NewTimer(min(time.Until(due), nap))
		select {
		case <-ctx.Done():
			timer.Stop()
			if running != nil {
				<-running
			}
			return
		case <-running:
			timer.Stop()
			running = nil
			if owed {
				start()
			}
			continue
		case <-timer.C:
		}
		now := time.Now().Round(0) // without the monotonic clock, which stops while a machine sleeps
		if now.Before(due) {
			continue
		}
		at := due
		due = j.schedule.next(now)
		missed := ""
		switch {
		case running != nil:
			missed = "the run before it has not ended"
		case now.Sub(at) > late:
			missed = fmt.Sprintf("it is %s late", now.Sub(at).Round(time.Second))
		}
		switch {
		case missed == "":
			start()
		case !j.catchUp:
			r.printf(j, "skipped the run of %s: %s", at.Format(time.RFC3339), missed)
		case running == nil:
			r.printf(j, "running late for %s: %s", at.Format(time.RFC3339), missed)
			start()
		default:
			r.printf(j, "the run of %s follows later: %s", at.Format(time.RFC3339), missed)
			owed = true
		}
	}
	if running != nil {
		<-running
	}
}

// once runs a job and reports its result.
func (r *runner) once(ctx context.Context, j *job) {
	limited, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	begin := time.Now()
	stdout, stderr := r.lines(r.out, j.name), r.lines(r.errOut, j.name)
	err := r.run(limited, j, stdout, stderr)
	stdout.finish()
	stderr.finish()
	took := time.Since(begin).Round(time.Millisecond)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil && err != nil:
		r.line(r.errOut, j.name, fmt.Sprintf("stopped after %s, because the instance stops: %v", took, err))
	case limited.Err() != nil:
		r.line(r.errOut, j.name, fmt.Sprintf("stopped after %s, its timeout: %v", j.timeout, err))
	case errors.As(err, &exit):
		r.line(r.errOut, j.name, fmt.Sprintf("%v after %s", exit, took))
	case err != nil:
		r.line(r.errOut, j.name, fmt.Sprintf("cannot run: %v", err))
	default:
		r.printf(j, "exit status 0 after %s", took)
	}
}

// lines returns a writer that copies whole lines, with the name of the job. finish waits
// for the last.
func (r *runner) lines(to io.Writer, name string) *lineWriter {
	in, out := io.Pipe()
	w := &lineWriter{PipeWriter: out, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		reader := bufio.NewReaderSize(in, longestLine)
		for {
			text, _, err := reader.ReadLine()
			if err != nil {
				return
			}
			r.line(to, name, string(text))
		}
	}()
	return w
}

type lineWriter struct {
	*io.PipeWriter
	done chan struct{}
}

func (w *lineWriter) finish() {
	_ = w.Close() // never fails
	<-w.done
}

// shell runs a job's command. When ctx ends, all of its processes get SIGTERM, and
// after killAfter SIGKILL.
func shell(ctx context.Context, j *job, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", j.command) //nolint:gosec // that is what the crontab is for
	cmd.Env = append(append(os.Environ(), j.env...), "CRON_JOB="+j.name)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	signal := func(s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
	cmd.Cancel = func() error { return signal(syscall.SIGTERM) }
	// After that, the output of processes that are left is not waited for.
	cmd.WaitDelay = killAfter
	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		_ = signal(syscall.SIGKILL) // what is left of the group
	}
	return err
}
