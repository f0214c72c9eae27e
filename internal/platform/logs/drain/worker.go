package drain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

const (
	maxBackoff = time.Minute
	// saveEvery is how often the position is stored while lines are sent, and how often
	// receipt of sent lines is checked.
	saveEvery = time.Second
	// finishFor is how long a worker that stops waits for its receiver.
	finishFor = 2 * time.Second
	// maxResends is how often lines are sent again to a receiver that closes every connection
	// before they count as received. After that fewer are sent at a time, and their receipt
	// is awaited.
	maxResends = 3
	// unstableAfter is the number of failures after which connections need not last so long,
	// because the receiver seems to close them regularly.
	unstableAfter = 20
)

// worker sends the lines of an app to one drain.
type worker struct {
	*platform.Work
	manager *Manager
	id      string
	drain   Drain
	target  *target

	taken      uint64 // number of the last line that was received
	saved      uint64
	savedAt    time.Time
	read       uint64 // number of the last line that was sent
	skipped    uint64 // number of the last line that was read, in this session
	failing    bool   // the failure is in the app's log
	unreported uint64 // dropped lines that were not reported yet
	why        string
	toldAt     time.Time
	tried      bool // lines were sent in this session
	stuck      int  // how often in a row a session sent lines and none was known to be received

	mu    sync.Mutex
	stats Stat
}

func (w *worker) stat() Stat {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

func (w *worker) note(change func(*Stat)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.stats)
}

func (w *worker) run(ctx context.Context) {
	o := w.manager.options
	t, err := parseTarget(&w.drain, o.TLS)
	if err != nil {
		w.note(func(s *Stat) { s.Error = err.Error() })
		w.say("Syslog Drain: it cannot be used: %s", err)
		return
	}
	w.target = t
	w.note(func(s *Stat) { s.Target = t.name })
	if !t.logs {
		return
	}
	pause := o.Backoff
	for {
		before := w.taken
		err := background.Do("log drain", func() error { return w.session(ctx) })
		w.save(ctx, true)
		w.tellLosses()
		if ctx.Err() != nil || errors.Is(err, logs.ErrStopped) {
			return
		}
		switch {
		case w.taken > before:
			pause, w.stuck = o.Backoff, 0
		case w.tried:
			// A receiver that could not be reached does not count: that says nothing about
			// how many lines it accepts at a time.
			w.stuck++
		}
		if err == nil {
			continue // an idle connection was closed
		}
		if !errors.Is(err, logs.ErrClosed) { // a deleted app has no log
			w.fail(err)
		}
		// Random, so that the drains of one receiver do not all reconnect at once.
		if !background.Sleep(ctx, pause/2+rand.N(pause)) { //nolint:gosec // not a secret
			return
		}
		pause = min(2*pause, maxBackoff)
	}
}

// begin determines the position, the first time.
func (w *worker) begin(ctx context.Context) (logs.Tail, error) {
	from := logs.After(w.taken)
	if w.savedAt.IsZero() {
		sent, known, err := w.manager.options.Positions.Position(ctx, w.App, w.id)
		if err != nil {
			return nil, err
		}
		if from = logs.After(sent); !known {
			from = logs.Newest(0) // a new drain starts with new lines
		}
	}
	t, err := w.manager.store.Tail(w.App, from)
	if err != nil {
		return nil, err
	}
	if w.savedAt.IsZero() {
		w.taken = t.At()
		w.read = w.taken
		if err := w.keep(ctx); err != nil {
			t.Close()
			return nil, err
		}
		w.note(func(s *Stat) { s.Ready, s.Taken = true, w.taken })
	}
	return t, nil
}

// session sends until the sender breaks. It returns nil if no line was lost with it.
func (w *worker) session(ctx context.Context) error {
	t, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer t.Close()
	w.read, w.tried, w.skipped = w.taken, false, 0
	var s sender
	defer func() {
		if s == nil {
			return
		}
		if ctx.Err() != nil { // the next server, or the next start, sends the rest
			w.take(ctx, s.finish(finishFor))
		}
		s.close()
	}()
	for {
		w.tellLosses()
		b, err := w.next(ctx, t, s)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if s != nil {
			w.take(ctx, s.taken(time.Now()))
			select {
			case <-s.broken():
				if w.taken == w.read && len(b.Entries) == 0 {
					return nil
				}
				return cause(s, errGone)
			default:
			}
		}
		if b.Missed > 0 {
			w.lose(b.Missed, "they were dropped from the log before it took them")
			w.passOver(b.First - 1)
		}
		if len(b.Entries) == 0 {
			continue
		}
		all := messages(b, &w.drain, w.target)
		if len(all) > 0 && s == nil {
			// Only now, because the drain of a quiet app needs no connection.
			if s, err = w.connect(ctx); err != nil {
				return err
			}
		}
		if err := w.send(ctx, s, all); err != nil {
			return err
		}
		w.skipped = b.First + uint64(len(b.Entries)) - 1
		w.take(ctx, w.taken)
	}
}

// cause returns why the sender is broken, if it says so within a moment, otherwise err.
func cause(s sender, err error) error {
	select {
	case <-s.broken():
		return cmp.Or(s.reason(), err)
	case <-time.After(100 * time.Millisecond):
		return err
	}
}

// next waits for lines, but not for long while some are not known to be received.
func (w *worker) next(ctx context.Context, t logs.Tail, s sender) (logs.Batch, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.taken < w.read || w.saved < w.taken || w.unreported > 0 {
		waiting, cancel = context.WithTimeout(waiting, min(saveEvery, w.manager.options.Settle))
		defer cancel()
	}
	if s != nil && s.broken() != nil {
		stop := make(chan struct{})
		defer close(stop)
		background.Go("log drain", func() {
			select {
			case <-s.broken():
				cancel()
			case <-stop:
			}
		})
	}
	b, err := t.Next(waiting)
	if errors.Is(err, logs.ErrClosed) {
		// The app's log was deleted; a new one would start with 1.
		w.taken, w.read, w.skipped = 0, 0, 0
		return b, err
	}
	if err != nil && waiting.Err() != nil {
		err = nil
	}
	return b, err
}

func (w *worker) connect(ctx context.Context) (sender, error) {
	o := w.manager.options
	if w.target.url != "" {
		return newPoster(w.target, o.Guard), nil
	}
	return dialSyslog(ctx, w.target, o.Guard, o.Settle>>max(0, w.stuck-unstableAfter))
}

// portion returns how many lines are sent before their receipt is awaited; 0 means that it
// is not.
func (w *worker) portion() int {
	if w.stuck < maxResends {
		return 0
	}
	return max(1, 128>>(w.stuck-maxResends))
}

// awaitTaken waits until all sent lines are received.
func (w *worker) awaitTaken(ctx context.Context, s sender) error {
	tick := time.NewTicker(min(saveEvery, w.manager.options.Settle) / 4)
	defer tick.Stop()
	for w.taken < w.read {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.broken():
			return cause(s, errGone)
		case <-tick.C:
			w.take(ctx, s.taken(time.Now()))
		}
	}
	return nil
}

func (w *worker) send(ctx context.Context, s sender, all []message) error {
	if len(all) == 0 {
		return nil
	}
	for len(all) > 0 {
		part := all
		if n := w.portion(); n > 0 {
			part = all[:min(n, len(all))]
		}
		w.tried = true
		err := s.send(ctx, part)
		var refused *refusedError
		switch {
		case errors.As(err, &refused):
			w.lose(refused.lines, "the receiver refused them: "+refused.reason)
			w.read = refused.last
			w.take(ctx, refused.last)
			for len(all) > 0 && all[0].number <= refused.last {
				all = all[1:]
			}
			continue
		case err != nil:
			w.take(ctx, s.taken(time.Now()))
			return cause(s, err)
		}
		w.read = part[len(part)-1].number
		w.note(func(st *Stat) { st.Sent += uint64(len(part)) })
		w.take(ctx, s.taken(time.Now()))
		if w.portion() > 0 {
			if err := w.awaitTaken(ctx, s); err != nil {
				return err
			}
			w.stuck-- // it accepts so many: send twice as many next
		}
		all = all[len(part):]
	}
	w.recovered()
	return nil
}

// passOver accounts for lines that no longer exist. The lines before them may not have been
// received yet.
func (w *worker) passOver(number uint64) {
	if w.taken == w.read {
		w.taken = number
	}
	w.read = number
}

// take records the number of the last received line.
func (w *worker) take(ctx context.Context, number uint64) {
	w.taken = max(w.taken, number)
	if w.taken >= w.read && w.skipped > w.taken {
		// The lines after the last received one are not for this drain.
		w.taken, w.read = w.skipped, w.skipped
	}
	w.note(func(s *Stat) { s.Taken, s.Waiting = w.taken, w.read-min(w.read, w.taken) })
	w.save(ctx, false)
}

func (w *worker) save(ctx context.Context, now bool) {
	if w.savedAt.IsZero() || w.saved == w.taken || !now && time.Since(w.savedAt) < saveEvery {
		return
	}
	if err := w.keep(ctx); err != nil {
		w.manager.options.Log.Warn("storing the position of a log drain failed: lines may be sent again", "app", w.App,
			"error", err)
	}
}

// keepFor limits the time for storing a position.
const keepFor = 3 * time.Second

// keep stores the position, also when the worker stops.
func (w *worker) keep(ctx context.Context) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepFor)
	defer cancel()
	if err := w.manager.options.Positions.SetPosition(limited, w.App, w.id, w.taken); err != nil {
		return err
	}
	w.saved, w.savedAt = w.taken, time.Now()
	return nil
}

// fail reports the first of several failures in the app's log.
func (w *worker) fail(err error) {
	w.note(func(s *Stat) { s.Error, s.Failures = err.Error(), s.Failures+1 })
	if !w.failing {
		w.failing = true
		w.say("Syslog Drain: Error when writing to %s: %s. It is tried again, with pauses; lines wait meanwhile.",
			w.target.name, err)
		w.manager.options.Log.Info("log drain failed", "app", w.App, "target", w.target.name, "error", err)
	}
}

func (w *worker) recovered() {
	if w.failing {
		w.failing = false
		w.note(func(s *Stat) { s.Error, s.Failures = "", 0 })
		w.say("Syslog Drain: writing to %s works again.", w.target.name)
	}
}

// lose reports lines in the app's log that the receiver will not get.
func (w *worker) lose(n uint64, why string) {
	w.note(func(s *Stat) { s.Lost += n })
	w.unreported, w.why = w.unreported+n, why
}

func (w *worker) tellLosses() {
	if w.unreported > 0 && time.Since(w.toldAt) >= w.manager.options.TellEvery {
		w.say("Syslog Drain: %d lines were not sent to %s: %s", w.unreported, w.target.name, w.why)
		w.unreported, w.toldAt = 0, time.Now()
	}
}

func (w *worker) say(format string, args ...any) {
	err := w.manager.store.Tell(platform.LogLine{
		App: w.App, Time: time.Now(), Source: logs.SourceLogs, Instance: "0", Stderr: true,
		Text: fmt.Appendf(nil, format, args...),
	})
	if err != nil && !errors.Is(err, logs.ErrStopped) {
		w.manager.options.Log.Warn("writing a message about a log drain to the app's log failed", "app", w.App, "error", err)
	}
}
