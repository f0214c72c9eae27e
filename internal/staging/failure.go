package staging

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ingot/internal/engine"
	"ingot/internal/fault"
	"ingot/internal/staging/lifecycle"
)

// Failure is a build that failed, in words for its user. Its text is what a
// build's error says: "REASON - MESSAGE", the reasons being Cloud Foundry's.
type Failure struct {
	Reason  string
	Message string
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

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

func failure(reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// explain turns what went wrong around the instance into a Failure. Only what
// was meant for a user is shown.
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
	return &Failure{Reason: StagingError, Message: doing + " failed for a reason of the platform's own, which is in the operator's log; try again", Err: err}
}

// outcome is how the instance ended.
type outcome struct {
	status   int
	oom      bool
	timedOut bool
	stopped  bool // somebody signalled it
	lost     bool // it vanished, or its first process was killed
	reason   string
}

// failure says what an outcome means, nil if all went well. Limits are for the
// messages.
func (o outcome) failure(memoryMB, diskMB int, timeout time.Duration) error {
	switch {
	case o.timedOut:
		return failure(TimeExpired, "Staging time expired: the build took longer than %s", timeout)
	case o.status == lifecycle.ExitOK && !o.lost && !o.stopped:
		return nil
	case o.oom:
		return failure(StagingError, "The build ran out of memory: the limit is %d MB. Give the app more memory (cf push -m, or memory in the manifest) and stage again", memoryMB)
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
		return failure(StagingError, "The build ran out of disk space: the limit is %d MB. Give the app more disk (cf push -k, or disk_quota in the manifest), or push fewer files", diskMB)
	}
	return failure(StagingError, "Staging failed: exit status %d", o.status)
}

// errCancelled is the cause of a context that Cancel ended, errExpired of one
// that lasted too long.
var (
	errCancelled = errors.New("cancelled")
	errExpired   = errors.New("expired")
)

// ended says why a context ended, in our words.
func ended(ctx context.Context, timeout time.Duration) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errCancelled):
		return failure(StagingError, "The build was cancelled")
	case errors.Is(cause, errExpired):
		return outcome{timedOut: true}.failure(0, 0, timeout)
	}
	return ErrInterrupted
}
