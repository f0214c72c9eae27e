package delivery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

const (
	// linger is how long an outcome waits for others to share its commit.
	linger = 50 * time.Millisecond
	// enough is the number of outcomes that are committed without waiting for
	// more.
	enough = 1000
	// tooMany is the number of pending outcomes at which done blocks, because
	// the database cannot keep up.
	tooMany = 10_000
)

// finisher records outcomes, many in one transaction.
type finisher struct {
	store   notify.Store
	metrics *Metrics
	log     *slog.Logger
	// makeCallbacks makes the webhook calls; finished is called after each
	// commit with whether any message is to be retried, and any was collected.
	makeCallbacks notify.CallbackMaker
	finished      func(again, collected bool)

	wake signal

	mu      sync.Mutex
	room    sync.Cond
	journal *journal
	pending []notify.Outcome
	// behind are the callers that wait for the commit, because the journal
	// failed.
	behind []chan struct{}
	closed bool
}

func newFinisher(store notify.Store, j *journal, log *slog.Logger, m *Metrics) *finisher {
	f := &finisher{store: store, journal: j, log: log, metrics: m, wake: newSignal()}
	f.room.L = &f.mu
	return f
}

// add adds an outcome. When it returns, a delivered message is not delivered
// again, even if the process is killed.
func (f *finisher) add(o notify.Outcome) {
	if wait := f.put(o); wait != nil {
		<-wait
	}
}

func (f *finisher) put(o notify.Outcome) (wait chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.Status == notify.Delivered && o.Attempted {
		if err := f.journal.append(o.Number); err != nil {
			f.metrics.journalFailed()
			if len(f.behind) == 0 {
				f.log.Error("write delivery journal failed, deliveries wait for the database: free some disk space", "error", err)
			}
			if !f.closed {
				wait = make(chan struct{})
				f.behind = append(f.behind, wait)
			}
		}
	}
	for len(f.pending) >= tooMany && !f.closed {
		f.room.Wait()
	}
	f.pending = append(f.pending, o)
	if n := len(f.pending); n == 1 || n == enough || wait != nil {
		f.wake.send()
	}
	return wait
}

// run commits outcomes until ctx is done, and then the remaining ones, until
// last is done.
func (f *finisher) run(ctx, last context.Context) {
	for ctx.Err() == nil {
		select {
		case <-f.wake:
		case <-ctx.Done():
		}
		f.gather(ctx)
		f.commit(last, ctx)
	}
	f.commit(last, last)
	f.mu.Lock()
	f.closed = true
	if len(f.pending) == 0 {
		// A clean shutdown leaves nothing to recover at the next start.
		for i := range f.journal.files {
			f.journal.forget(i) //nolint:errcheck // then it is replayed without effect
		}
	}
	f.release(f.behind)
	f.behind = nil
	f.room.Broadcast()
	f.mu.Unlock()
}

// gather waits a short time for more outcomes.
func (f *finisher) gather(ctx context.Context) {
	timer := time.NewTimer(linger)
	defer timer.Stop()
	for {
		f.mu.Lock()
		ready := len(f.pending) >= enough || len(f.behind) > 0
		f.mu.Unlock()
		if ready {
			return
		}
		select {
		case <-f.wake:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (f *finisher) take() (batch []notify.Outcome, behind []chan struct{}, old int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	batch, behind, old = f.pending, f.behind, -1
	if len(batch) > 0 {
		old = f.journal.exchange()
	}
	f.pending, f.behind = make([]notify.Outcome, 0, min(len(batch), enough)), nil
	f.room.Broadcast()
	return batch, behind, old
}

func (f *finisher) release(behind []chan struct{}) {
	for _, c := range behind {
		close(c)
	}
}

// commit records all pending outcomes. It retries until it succeeds, or until
// one of the contexts is done: patience limits the retries, ctx the statement.
// Outcomes that are given up then are in the journal, or were not delivered.
func (f *finisher) commit(ctx, patience context.Context) {
	batch, behind, old := f.take()
	defer func() { f.release(behind) }()
	if len(batch) == 0 {
		return
	}
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := background.Do("delivery outcomes", func() error {
			_, err := f.store.Finish(ctx, batch, f.makeCallbacks)
			return err
		})
		if err == nil {
			f.committed(batch, old)
			return
		}
		f.log.Error("record outcomes failed, retrying", "messages", len(batch), "error", err)
		if !wait(patience, pause) {
			f.putBack(batch, behind)
			behind = nil
			return
		}
	}
}

// putBack puts a batch that could not be committed back to the front.
func (f *finisher) putBack(batch []notify.Outcome, behind []chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(batch, f.pending...)
	f.behind = append(behind, f.behind...)
}

func (f *finisher) committed(batch []notify.Outcome, old int) {
	if old >= 0 {
		f.mu.Lock()
		err := f.journal.forget(old)
		f.mu.Unlock()
		if err != nil {
			f.log.Error("empty delivery journal failed", "error", err)
		}
	}
	again, collected := false, false
	for _, o := range batch {
		again, collected = again || o.Status == notify.Retry, collected || o.Entry != nil
	}
	f.metrics.outcomes(batch)
	f.finished(again, collected)
}

// signal wakes one waiter; several sends without a waiter count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// wait waits for d and reports whether that time passed before ctx was done.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
