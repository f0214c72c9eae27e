package alerts

import (
	"context"
	"errors"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

const (
	// eventsAtOnce is the number of events that are read at once, batchesAtOnce how often a
	// pass does that.
	eventsAtOnce  = 500
	batchesAtOnce = 40
	// messagesAtOnce limits the messages about one space in one pass, except those about
	// crashes, so that others do not wait.
	messagesAtOnce = 20
	// failuresAtOnce is how many spaces may fail before a pass gives up.
	failuresAtOnce = 3
)

// reading is the work of one pass.
type reading struct {
	spaces  map[string]*readSpace
	failure error
	failed  int // number of spaces with a failure
}

type readSpace struct {
	enabled bool
	sent    int
	failed  bool
}

// read handles the events without a notification. Those of a space whose messages
// fail, or that has many, are left for the next pass; they delay no other space.
func (a *Alerter) read(ctx context.Context) error {
	r := reading{spaces: map[string]*readSpace{}}
	for range batchesAtOnce {
		var after time.Time
		var guid string
		if a.last != nil {
			after, guid = a.last.Created, a.last.GUID
		}
		events, err := a.c.Events.Unalerted(ctx, after, guid, eventsAtOnce)
		if err != nil {
			return errors.Join(r.failure, err)
		}
		if err := a.handleAll(ctx, &r, events); err != nil {
			return errors.Join(r.failure, err)
		}
		if len(events) < eventsAtOnce && r.failed < failuresAtOnce {
			a.last = nil // the next pass starts with those that were left
			break
		}
		if r.failed >= failuresAtOnce {
			break // the next pass starts behind them
		}
	}
	return r.failure
}

// handleAll handles events. What it remembers of them is stored before they are marked, so
// that no crash counts twice if the server is killed in between.
func (a *Alerter) handleAll(ctx context.Context, r *reading, events []*platform.AuditEvent) error {
	var done []string
	for _, e := range events {
		if r.failed >= failuresAtOnce {
			break
		}
		a.last = e
		if a.at.has(e) || a.handleSafely(ctx, r, e) {
			done = append(done, e.GUID)
		}
	}
	if len(done) == 0 {
		return nil
	}
	if err := a.save(ctx); err != nil {
		return err
	}
	if err := a.c.Events.SetAlerted(ctx, done); err != nil {
		return err
	}
	a.at.forget(done)
	return nil
}

// handleSafely handles one event, and reports whether that is done.
func (a *Alerter) handleSafely(ctx context.Context, r *reading, e *platform.AuditEvent) bool {
	done := false
	err := background.Do("handle an audit event", func() (err error) {
		done, err = a.handle(ctx, r, e)
		return err
	})
	var panicked *background.PanicError
	if errors.As(err, &panicked) {
		return true // a bad event would fail for ever
	}
	if err != nil {
		r.failed++
		r.failure = errors.Join(r.failure, err)
	}
	return err == nil && done
}

// handle handles one event. Crashes are collected, everything else is sent at once.
func (a *Alerter) handle(ctx context.Context, r *reading, e *platform.AuditEvent) (done bool, err error) {
	if !platform.Alerting(e.Type) {
		return true, nil
	}
	s := r.spaces[e.SpaceGUID]
	if s == nil {
		enabled, err := a.enabled(ctx, e.SpaceGUID)
		if err != nil {
			return false, err
		}
		s = &readSpace{enabled: enabled}
		r.spaces[e.SpaceGUID] = s
	}
	switch {
	case !s.enabled:
		return true, nil
	case e.Type == eventCrash:
		a.crashed(e)
		a.at.passed(e)
		return true, nil
	case s.failed || s.sent >= messagesAtOnce:
		return false, nil
	}
	m, _ := describe(e)
	m.Key = e.GUID
	s.sent++
	err = a.notifyDevelopers(ctx, e.SpaceGUID, subject{e.TargetType, e.TargetGUID, e.TargetName}, m)
	s.failed = err != nil
	return err == nil, err
}

// enabled reports whether the space has notifications enabled.
func (a *Alerter) enabled(ctx context.Context, spaceGUID string) (on bool, err error) {
	err = a.c.Store.View(ctx, func(tx platform.Tx) error {
		space, err := tx.Spaces().Get(spaceGUID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		on = err == nil && space.Labels[Label] == On
		return err
	})
	return on, err
}
