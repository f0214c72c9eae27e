package recurring

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// Options configure a Runner.
type Options struct {
	Store notify.Store
	// Send accepts the send of an occurrence: actions.Service.Send.
	Send func(ctx context.Context, r actions.Request) (actions.Receipt, error)
	// Poll is how often to look without being notified: by default every second if the store is shared, otherwise
	// every 15 s. Lease is how long other servers leave an occurrence to one that disappeared (1 min), Again when one
	// is tried again that could not be sent for reasons that pass (30 s).
	Poll, Lease, Again time.Duration
	Log                *slog.Logger
	Now                func() time.Time
}

// Runner is a background.Service that sends what is due.
type Runner struct {
	background.Part
	o    Options
	wake chan struct{}
}

const (
	batch   = 64
	workers = 4
)

// New returns a Runner that does nothing before Start.
func New(o Options) *Runner {
	if o.Poll <= 0 {
		o.Poll = 15 * time.Second
		if o.Store.Shared() {
			o.Poll = time.Second
		}
	}
	if o.Lease <= 0 {
		o.Lease = time.Minute
	}
	if o.Again <= 0 {
		o.Again = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Runner{o: o, wake: make(chan struct{}, 1)}
}

// Kick makes the Runner look for what is due, after a change.
func (r *Runner) Kick() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Start begins to send.
func (r *Runner) Start(ctx context.Context) error { return r.Run(ctx, r.run) }

// Stop ends the work. What is being sent is tried again by another server, or after the next start.
func (r *Runner) Stop() { r.Halt(nil) }

func (r *Runner) run(ctx context.Context) {
	seen := time.Time{} // the clock at the last look; the first look is like one after the clock was set back
	for ctx.Err() == nil {
		// Without the monotonic reading, which does not show that the clock was set.
		now := r.o.Now().Round(0)
		if seen.IsZero() || now.Before(seen) {
			if err := r.rewind(ctx, now); err != nil && ctx.Err() == nil {
				r.o.Log.Error("look at recurring sends after the clock was set back failed, retrying", "error", err)
				now = seen
			}
		}
		seen = now
		again, pause := r.look(ctx)
		if again {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// look sends what is due. It returns whether there may be more, and otherwise how long to wait.
func (r *Runner) look(ctx context.Context) (more bool, pause time.Duration) {
	due, next, err := r.o.Store.DueRecurring(ctx, batch, r.o.Lease)
	if err != nil {
		if ctx.Err() == nil {
			r.o.Log.Error("look up recurring sends failed, retrying", "error", err)
		}
		return false, min(time.Second, r.o.Poll)
	}
	var sending background.WaitGroup
	work := make(chan *notify.Recurring)
	for range min(workers, len(due)) {
		sending.Go("recurring sends", func() {
			for one := range work {
				if err := background.Do("recurring send", func() error { return r.send(ctx, one) }); err != nil {
					r.o.Log.Error("recurring send failed, retrying later", "client", one.ClientID, "name", one.Name,
						"error", err)
				}
			}
		})
	}
	for i := range due {
		work <- &due[i]
	}
	close(work)
	sending.Wait()
	pause = r.o.Poll
	if !next.IsZero() {
		pause = max(0, min(pause, next.Sub(r.o.Now())))
	}
	return len(due) == batch, pause
}

// send sends the occurrence that is due. Those that were missed since are not sent.
func (r *Runner) send(ctx context.Context, one *notify.Recurring) error {
	now := r.o.Now()
	o := notify.Occurrence{RecurringRef: one.RecurringRef, At: one.Next, Sent: now, Updated: one.Updated}
	plan, err := NewPlan(one.Timetable)
	if err != nil { // for example, the system's zones have changed
		return r.o.Store.SkipOccurrence(ctx, o, problemOf(err))
	}
	if o.Next = plan.Next(later(one.Next, now)); one.Count > 0 && one.Runs+1 >= one.Count {
		o.Next = time.Time{}
	}
	request := actions.OccurrenceRequest(one, now)
	request.Occurrence = &o
	_, err = r.o.Send(ctx, request)
	switch {
	case err == nil, errors.Is(err, notify.ErrSuperseded):
		return nil
	case ctx.Err() != nil:
		release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return r.o.Store.PostponeOccurrence(release, o, one.Next, one.Problem)
	case !passes(err):
		r.o.Log.InfoContext(ctx, "an occurrence of a recurring send was refused", "client", one.ClientID, "name", one.Name,
			"error", err)
		return r.o.Store.SkipOccurrence(ctx, o, problemOf(err))
	}
	r.o.Log.WarnContext(ctx, "an occurrence of a recurring send failed, retrying", "client", one.ClientID, "name",
		one.Name, "error", err)
	return r.o.Store.PostponeOccurrence(ctx, o, now.Add(r.o.Again), problemOf(err))
}

// passes reports whether the same request may succeed later.
func passes(err error) bool {
	var f *fault.Error
	if !errors.As(err, &f) {
		return true // of the database, or of another server
	}
	switch f.Code {
	case fault.Unavailable, fault.RateLimited, fault.InsufficientStorage:
		return true
	}
	return false
}

const maxProblem = 500

// problemOf returns what the sender is told about an error.
func problemOf(err error) string {
	var f *fault.Error
	if !errors.As(err, &f) {
		return "The server could not accept the send; it is tried again"
	}
	text := strings.ReplaceAll(f.Message, "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), maxProblem)], "")
}

// rewind makes what was moved too far into the future due earlier: while the clock was ahead, an occurrence was sent,
// and those up to that time were taken as missed.
func (r *Runner) rewind(ctx context.Context, now time.Time) error {
	q := notify.RecurringQuery{All: true, Limit: 100}
	for {
		list, err := r.o.Store.ListRecurring(ctx, q)
		if err != nil {
			return err
		}
		for i := range list {
			one := &list[i]
			if one.State != notify.RecurringActive || !one.LastRun.After(now) && !one.Updated.After(now) {
				continue
			}
			at := one.Next
			if err := Begin(one, now); err != nil || !one.Next.Before(at) || one.Next.IsZero() {
				continue
			}
			o := notify.Occurrence{RecurringRef: one.RecurringRef, At: at, Next: one.Next, Updated: one.Updated}
			if err := r.o.Store.MoveOccurrence(ctx, o); err != nil {
				return err
			}
		}
		if len(list) < q.Limit {
			return nil
		}
		q.After = list[len(list)-1].RecurringRef
	}
}
