package controller

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
)

// Rotations gives running instances the new credentials of their services, in their service
// files, and tells the members that ask for it. It is a background.Service.
//
// The program that replaces files runs in the instance, as its user, who can stop it. So apps
// take turns: one attempt at a time for each app, few and short ones for all, and those that
// failed before wait for each other and not for the rest.
type Rotations struct {
	Config
	background.Service
	attempts background.WaitGroup
	// first is how long an instance of an app may take at its first attempt, later afterwards.
	first, later time.Duration

	mu     sync.Mutex
	rows   []*platform.CredentialRotation // to try, from the last look
	busy   map[string]rotationAttempt     // by app
	failed map[string]rotationFailure     // by app
}

// rotationAttempt is an attempt in progress.
type rotationAttempt struct {
	space string
	again bool // the app has failed before
}

// rotationFailure is about an app with an instance that could not be told.
type rotationFailure struct {
	space    string
	count    int
	notUntil time.Time
}

const (
	rotationInterval = time.Second
	rotationFirst    = 5 * time.Second
	rotationLater    = 30 * time.Second
	rotationRetry    = 2 * time.Second
	rotationMaxRetry = 5 * time.Minute
	// rotationsAtOnce limits the apps that are tried at the same time, rotationRetries those
	// that have failed before, which are not counted there.
	rotationsAtOnce = 8
	rotationRetries = 4
)

// NewRotations returns a service that is not running. An instance that is being told when it
// stops gets all of its files or none.
func NewRotations(c Config) *Rotations {
	r := &Rotations{
		Config: c.withDefaults(), first: rotationFirst, later: rotationLater,
		busy: map[string]rotationAttempt{}, failed: map[string]rotationFailure{},
	}
	r.Service = background.Every(rotationInterval, func(ctx context.Context) { r.look(ctx, time.Now()) })
	return r
}

// Stop implements background.Service.
func (r *Rotations) Stop() {
	r.Service.Stop()
	r.attempts.Wait()
}

// look begins to tell the instances that wait for new files. It does not wait for them.
func (r *Rotations) look(ctx context.Context, now time.Time) {
	var rows []*platform.CredentialRotation
	err := r.Store.View(ctx, func(tx platform.Tx) (err error) {
		rows, _, err = tx.CredentialRotations().List(platform.Where("state", platform.RotationApplying).
			And(platform.In("method", platform.ByFiles)))
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			r.Log.WarnContext(ctx, "new credentials are not passed on to instances now", "error", err)
		}
		return
	}
	known := map[string]bool{}
	rows = slices.DeleteFunc(rows, func(row *platform.CredentialRotation) bool {
		known[row.AppGUID] = true
		return r.Owner != nil && !r.Owner.Owns(row.AppGUID)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.failed, func(app string, _ rotationFailure) bool { return !known[app] })
	r.rows = rows
	r.begin(ctx, now)
}

// begin starts attempts as far as the limits allow. r.mu is held.
func (r *Rotations) begin(ctx context.Context, now time.Time) {
	for ctx.Err() == nil {
		i := r.next(now)
		if i < 0 {
			return
		}
		row := r.rows[i]
		r.rows = slices.Delete(r.rows, i, i+1)
		failures, limit := r.failed[row.AppGUID].count, r.first
		if failures > 0 {
			limit = r.later
		}
		r.busy[row.AppGUID] = rotationAttempt{space: row.SpaceGUID, again: failures > 0}
		r.attempts.Go("new credentials", func() {
			err := errors.New("the attempt was not completed")
			defer func() { r.ended(ctx, row, err) }()
			err = background.Do("new credentials", func() error { return r.tell(ctx, row.GUID, limit, failures) })
			if err != nil && ctx.Err() == nil {
				r.Log.WarnContext(ctx, "an instance did not get new credentials; it is tried again", "app", row.AppGUID,
					"error", err)
				r.describe(ctx, row.GUID, fmt.Sprintf(
					"The service files of an instance could not be replaced (%v). It is tried again; a restart of the app helps as "+
						"well.", err))
			}
		})
	}
}

// next returns the index of the row to try next, or -1. Apps that have not failed come first,
// then those that failed less often; of these the ones in spaces with less trouble.
func (r *Rotations) next(now time.Time) int {
	retries := 0
	trouble := map[string]int{} // apps by space that are being tried or have failed
	for app, one := range r.busy {
		if one.again {
			retries++
		}
		if _, counted := r.failed[app]; !counted {
			trouble[one.space]++
		}
	}
	for _, one := range r.failed {
		trouble[one.space]++
	}
	found := -1
	for i, row := range r.rows {
		failure := r.failed[row.AppGUID]
		if _, is := r.busy[row.AppGUID]; is || now.Before(failure.notUntil) {
			continue
		}
		if failure.count > 0 && retries >= rotationRetries || failure.count == 0 && len(r.busy)-retries >= rotationsAtOnce {
			continue
		}
		if found < 0 || cmp.Or(
			cmp.Compare(failure.count, r.failed[r.rows[found].AppGUID].count), cmp.Compare(trouble[row.SpaceGUID],
				trouble[r.rows[found].SpaceGUID]),
		) < 0 {
			found = i
		}
	}
	return found
}

// ended stores the result of an attempt and begins others.
func (r *Rotations) ended(ctx context.Context, row *platform.CredentialRotation, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, row.AppGUID)
	now := time.Now()
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		delete(r.failed, row.AppGUID)
	default:
		count := r.failed[row.AppGUID].count + 1
		r.failed[row.AppGUID] = rotationFailure{space: row.SpaceGUID, count: count,
			notUntil: now.Add(min(rotationRetry<<min(count, 10), rotationMaxRetry))}
	}
	r.begin(ctx, now)
}

// tell tells instances of a rotation, for as long as one may take. Others are told at the next
// attempt, which begins with another one after a failure, so that all are told in the end.
func (r *Rotations) tell(ctx context.Context, guid string, limit time.Duration, failures int) error {
	row, err := db.Within(ctx, r.Store.View, func(tx platform.Tx) (*platform.CredentialRotation, error) {
		return tx.CredentialRotations().Get(guid) // it may have changed since it was listed
	})
	if fault.Is(err, fault.NotFound) || err == nil && row.State != platform.RotationApplying {
		return nil
	}
	if err != nil {
		return err
	}
	begin := 0
	if n := len(row.Waits); n > 0 {
		begin = failures % n
	}
	var first error
	until := time.Now().Add(limit)
	for _, id := range slices.Concat(row.Waits[begin:], row.Waits[:begin]) {
		if err := r.give(ctx, row, id, limit); err != nil && first == nil {
			first = fmt.Errorf("instance %s: %w", id, err)
		}
		if ctx.Err() != nil || time.Now().After(until) {
			break
		}
	}
	return first
}

// give replaces the files of one instance, signals its members, and stores that it was told.
func (r *Rotations) give(ctx context.Context, row *platform.CredentialRotation, id string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	in, err := r.Engine.Get(ctx, id)
	if errors.Is(err, engine.ErrNotFound) || err == nil && !in.Running {
		return nil // its row is about to go, and with it what is waited for
	}
	if err != nil {
		return err
	}
	var files map[string][]byte
	var wants map[string]int
	err = r.Store.View(ctx, func(tx platform.Tx) error {
		app, err := tx.Apps().Get(row.AppGUID)
		if err != nil {
			return err
		}
		if files, err = actions.ServiceFiles(tx, app); err != nil {
			return err
		}
		wants, err = signalsOf(tx, in.Labels[labelProcess])
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil // being deleted
	}
	if err != nil {
		return err
	}
	args := []string{r.Replace, "--replace", "{{home}}/" + bindingsDir}
	for _, m := range in.State.Members {
		if number := wants[m.Name]; number > 0 && m.PID > 0 && !m.Exited {
			args = append(args, strconv.Itoa(m.PID)+":"+strconv.Itoa(number))
		}
	}
	if err := r.replaceFiles(ctx, id, args, files); err != nil {
		return err
	}
	return r.told(ctx, row.GUID, id)
}

// told stores that an instance has new files. The rotation continues after the last one.
func (r *Rotations) told(ctx context.Context, guid, id string) error {
	return r.Store.Update(ctx, func(tx platform.Tx) error {
		row, err := tx.CredentialRotations().Get(guid)
		if fault.Is(err, fault.NotFound) || err == nil && !slices.Contains(row.Waits, id) {
			return nil
		}
		if err != nil {
			return err
		}
		row.Waits, row.Description = slices.DeleteFunc(row.Waits, func(one string) bool { return one == id }), ""
		if err := tx.CredentialRotations().Update(row); err != nil || len(row.Waits) > 0 {
			return err
		}
		return actions.WakeRotation(tx, guid)
	})
}

// signalsOf returns the signals that the members of a process's instances ask for, by the names
// of the members.
func signalsOf(tx platform.Tx, process string) (map[string]int, error) {
	wants := map[string]int{}
	p, err := tx.Processes().Get(process)
	if fault.Is(err, fault.NotFound) {
		return wants, nil // a task reads its files when it needs them
	}
	if err != nil {
		return nil, err
	}
	of := &plan{process: p, app: &platform.App{}}
	if err := of.ofRevision(tx); err != nil {
		return nil, err
	}
	wants[p.Type] = platform.StopSignals[p.OnCredentials]
	names := memberNames(p.Type, of.sidecars)
	for _, s := range of.sidecars {
		number := platform.StopSignals[s.Options.OnCredentials]
		if s.Options.OnCredentials == platform.OnCredentialsRestart {
			// ingot-init starts it again: only sidecars that are always restarted may ask for it.
			if number = platform.StopSignals[s.Options.StopSignal]; number == 0 {
				number = int(syscall.SIGTERM)
			}
		}
		wants[names[s.Name]] = number
	}
	return wants, nil
}

// describe stores why an instance was not told.
func (r *Rotations) describe(ctx context.Context, guid, text string) {
	err := r.Store.Update(ctx, func(tx platform.Tx) error {
		row, err := tx.CredentialRotations().Get(guid)
		if err != nil || row.State != platform.RotationApplying || row.Description == text {
			return err
		}
		row.Description = text
		return tx.CredentialRotations().Update(row)
	})
	if err != nil && !fault.Is(err, fault.NotFound) && ctx.Err() == nil {
		r.Log.WarnContext(ctx, "the state of a rotation could not be stored", "error", err)
	}
}

// replaceFiles runs the program that replaces service files in an instance.
func (c *Config) replaceFiles(ctx context.Context, id string, args []string, files map[string][]byte) error {
	if c.Replace == "" {
		return errors.New("this server has no ingot-sftp program")
	}
	archive, err := archiveOf(files, 0o444)
	if err != nil {
		return err
	}
	return c.pipeInto(ctx, id, args, archive)
}

// pipeInto runs a program in an instance with an input, and waits for it.
func (c *Config) pipeInto(ctx context.Context, id string, args []string, input io.Reader) error {
	p, err := c.Engine.Exec(ctx, id, engine.ExecRequest{Args: args})
	if errors.Is(err, engine.ErrNotFound) {
		return nil // it has ended
	}
	if err != nil {
		return err
	}
	stop := background.OnDone(ctx, "replace files", func() { _ = p.Close() })
	defer func() {
		stop()
		_ = p.Close()
	}()
	_, err = io.Copy(p.Stdin(), input)
	err = errors.Join(err, p.Stdin().Close())
	var said bytes.Buffer
	_, _ = io.Copy(&said, io.LimitReader(p.Stderr(), 1<<10)) // part of a message
	status, waited := p.Wait()
	if err = errors.Join(err, waited); err == nil && status != 0 {
		err = fmt.Errorf("%s exited with status %d: %s", args[0], status, strings.TrimSpace(said.String()))
	}
	return err
}
