package staging

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
	"ingot/internal/platform/run/staging/lifecycle"
)

// Failure is the error of a failed build, for its user. Its text is "REASON -
// MESSAGE", with the reasons of Cloud Foundry. The error of a build contains that
// and the last lines of its output: see Report.
type Failure struct {
	Reason  string
	Message string
	// Lines are the last lines of the output, if they may explain the failure.
	Lines []string
	// Err is the cause, for the operator's log only.
	Err error
}

// The reasons.
const (
	NoAppDetected = "NoAppDetectedError"
	CompileFailed = "BuildpackCompileFailed"
	ReleaseFailed = "BuildpackReleaseFailed"
	NoBuildpacks  = "NoBuildpacksFound"
	TimeExpired   = "StagingTimeExpired"
	StagingError  = "StagingError"
	Insufficient  = "InsufficientResources"
)

func (f *Failure) Error() string { return f.Reason + " - " + f.Message }

// Report returns the text and the last lines of the output.
func (f *Failure) Report() string {
	if len(f.Lines) == 0 {
		return f.Error()
	}
	return f.Error() + "\nThe last lines of the build:\n   " + strings.Join(f.Lines, "\n   ")
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

func failure(reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// explain turns an error outside of the instance into a Failure. It shows only errors
// that are meant for users.
func explain(err error, doing string) error {
	var known *Failure
	if errors.As(err, &known) {
		return known
	}
	var refused *engine.PlacementError
	if errors.As(err, &refused) {
		return &Failure{Reason: Insufficient, Message: "The build was not started: " + refused.Reason, Err: err}
	}
	var f *fault.Error
	if errors.As(err, &f) {
		reason := StagingError
		if f.Code == fault.InsufficientStorage {
			reason = Insufficient
		}
		return &Failure{Reason: reason, Message: strings.Join(f.Messages(), "; "), Err: err}
	}
	if fault.IsDiskFull(err) {
		return &Failure{Reason: Insufficient,
			Message: doing + " failed: the disk of the platform is full. Try again after the operator has freed disk space",
			Err:     err}
	}
	return &Failure{Reason: StagingError,
		Message: doing + " failed because of an error of the platform, which is in the operator's log; try again", Err: err}
}

// outcome describes the end of the instance.
type outcome struct {
	status   int
	oom      bool
	timedOut bool
	stopped  bool // it was signalled
	lost     bool // it disappeared, or its first process was killed
	reason   string
}

// failure returns the Failure for an outcome, nil for a success. limits are for the
// messages.
func (o outcome) failure(memoryMB, diskMB int, timeout time.Duration) error {
	switch {
	case o.timedOut:
		return failure(TimeExpired, "Staging time expired: the build took longer than %s", timeout)
	case o.status == lifecycle.ExitOK && !o.lost && !o.stopped:
		return nil
	case o.oom:
		return failure(StagingError,
			"The build ran out of memory: the limit is %d MB. Give the app more memory (cf push -m, or memory in the "+
				"manifest) and stage again", memoryMB)
	case o.lost:
		return failure(StagingError, "The staging instance was lost before the build ended; stage again")
	case o.stopped:
		return failure(StagingError, "The build was stopped")
	}
	switch o.status {
	case lifecycle.ExitDetect:
		return failure(NoAppDetected, "An app was not successfully detected by any available buildpack")
	case lifecycle.ExitCompile:
		return failure(CompileFailed, "App staging failed in the buildpack compile phase")
	case lifecycle.ExitRelease:
		return failure(ReleaseFailed, "App staging failed in the buildpack release phase")
	case lifecycle.ExitSupply:
		return failure(CompileFailed, "App staging failed in the buildpack supply phase")
	case lifecycle.ExitFinalize:
		return failure(CompileFailed, "App staging failed in the buildpack finalize phase")
	case lifecycle.ExitDiskFull:
		return failure(StagingError,
			"The build ran out of disk space: the limit is %d MB. Give the app more disk (cf push -k, or disk_quota in the "+
				"manifest), or push fewer files", diskMB)
	}
	return failure(StagingError, "Staging failed: exit status %d", o.status)
}

// A failed build shows its last lastLines lines, each with at most longestLine bytes:
// cf push shows the error of a build, but not always the end of its log. Standard
// output and standard error are separate streams and may arrive out of order, so
// lastErrors of the lines are reserved for errors.
const (
	lastLines   = 10
	lastErrors  = 6
	longestLine = 300
)

type buildLine struct {
	seq    uint64
	stderr bool
	text   string
}

// remember stores a line for withLines.
func (b *build) remember(r initproto.Record) {
	text := strings.TrimRight(strings.ToValidUTF8(string(r.Payload), "\uFFFD"), " \t\r\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	if len(text) > longestLine {
		text = strings.ToValidUTF8(text[:longestLine], "") + "…"
	}
	line := buildLine{r.Seq, r.Kind == initproto.Stderr, text}
	b.last = append(b.last, line)
	same := func(l buildLine) bool { return l.stderr == line.stderr }
	if n := countLines(b.last, same); n > lastLines {
		b.last = slices.Delete(b.last, slices.IndexFunc(b.last, same), slices.IndexFunc(b.last, same)+1)
	}
}

func countLines(list []buildLine, is func(buildLine) bool) int {
	n := 0
	for _, l := range list {
		if is(l) {
			n++
		}
	}
	return n
}

// withLines adds the last lines of the build to its failure.
func (b *build) withLines(err error) error {
	var f *Failure
	if !errors.As(err, &f) || len(b.last) == 0 {
		return err
	}
	errs := min(countLines(b.last, func(l buildLine) bool { return l.stderr }), lastErrors)
	room := lastLines
	var lines []string
	for _, l := range slices.Backward(b.last) {
		switch {
		case room == 0 || !l.stderr && room <= errs:
			continue
		case l.stderr && errs > 0:
			errs--
		}
		room--
		lines = append(lines, l.text)
	}
	slices.Reverse(lines)
	with := *f
	with.Lines = lines
	return &with
}

// errCancelled is the cause of a context that Cancel cancelled, errExpired of one that
// timed out.
var (
	errCancelled = errors.New("cancelled")
	errExpired   = errors.New("expired")
)

// ended returns the error for a context that is done.
func ended(ctx context.Context, timeout time.Duration) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errCancelled):
		return failure(StagingError, "The build was cancelled")
	case errors.Is(cause, errExpired):
		return outcome{timedOut: true}.failure(0, 0, timeout)
	}
	return ErrInterrupted
}
