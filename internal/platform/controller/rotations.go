package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
)

// Rotations gives running instances the new credentials of their services, in their service
// files, and tells the members that ask for it. It is a background.Service.
type Rotations struct {
	Config
	background.Service
	// failures counts attempts by rotation, so that one with an instance that cannot be told is
	// not tried all the time.
	failures map[string]int
	notUntil map[string]time.Time
}

const (
	rotationInterval = time.Second
	rotationFor      = 30 * time.Second
	rotationRetry    = 2 * time.Second
	rotationMaxRetry = 5 * time.Minute
	// rotationsAtOnce is how many rotations are worked on at the same time, so that an instance
	// that does not answer delays its own app and few others.
	rotationsAtOnce = 8
)

// NewRotations returns a service that is not running. An instance that is being told when it
// stops gets all of its files or none.
func NewRotations(c Config) *Rotations {
	r := &Rotations{Config: c.withDefaults(), failures: map[string]int{}, notUntil: map[string]time.Time{}}
	r.Service = background.Every(rotationInterval, func(ctx context.Context) { r.look(ctx, time.Now()) })
	return r
}

// look tells the instances that wait for new files.
func (r *Rotations) look(ctx context.Context, now time.Time) {
	var rows []*platform.CredentialRotation
	err := r.Store.View(ctx, func(tx platform.Tx) (err error) {
		rows, _, err = tx.CredentialRotations().List(platform.Where("state", platform.RotationApplying).And(platform.In("method", platform.ByFiles)))
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
		known[row.GUID] = true
		return r.Owner != nil && !r.Owner.Owns(row.AppGUID) || now.Before(r.notUntil[row.GUID])
	})
	errs := background.EachResult(ctx, "new credentials", rotationsAtOnce, rows, r.tell)
	for i, row := range rows {
		if errs[i] == nil || ctx.Err() != nil {
			continue
		}
		r.failures[row.GUID]++
		r.notUntil[row.GUID] = now.Add(min(rotationRetry<<min(r.failures[row.GUID], 10), rotationMaxRetry))
		r.Log.WarnContext(ctx, "an instance did not get new credentials; it is tried again", "app", row.AppGUID, "error", errs[i])
		r.describe(ctx, row.GUID, fmt.Sprintf("The service files of an instance could not be replaced (%v). It is tried again; a restart of the app helps as well.", errs[i]))
	}
	for guid := range r.failures {
		if !known[guid] {
			delete(r.failures, guid)
			delete(r.notUntil, guid)
		}
	}
}

// tell tells instances of a rotation, until one fails. The next call begins with another one,
// so that all others are told in the end.
func (r *Rotations) tell(ctx context.Context, row *platform.CredentialRotation) error {
	first := 0
	if n := len(row.Waits); n > 0 {
		first = r.failures[row.GUID] % n
	}
	for _, id := range slices.Concat(row.Waits[first:], row.Waits[:first]) {
		if err := r.give(ctx, row, id); err != nil {
			return fmt.Errorf("instance %s: %w", id, err)
		}
	}
	return nil
}

// give replaces the files of one instance, signals its members, and stores that it was told.
func (r *Rotations) give(ctx context.Context, row *platform.CredentialRotation, id string) error {
	ctx, cancel := context.WithTimeout(ctx, rotationFor)
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
	return r.Store.Update(ctx, func(tx platform.Tx) error {
		now, err := tx.CredentialRotations().Get(row.GUID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		now.Waits, now.Description = slices.DeleteFunc(now.Waits, func(one string) bool { return one == id }), ""
		return tx.CredentialRotations().Update(now)
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
		if err != nil || row.State != platform.RotationApplying {
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
	_, _ = io.Copy(&said, io.LimitReader(p.Stderr(), 1<<10))
	status, waited := p.Wait()
	if err = errors.Join(err, waited); err == nil && status != 0 {
		err = fmt.Errorf("%s exited with status %d: %s", args[0], status, strings.TrimSpace(said.String()))
	}
	return err
}
