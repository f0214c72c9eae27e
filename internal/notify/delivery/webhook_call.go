package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
)

// run makes calls until ctx is done. Each webhook has its own queue, so that a
// slow one does not delay others.
func (c *caller) run(ctx context.Context, owner string) {
	defer c.post.Close()
	var working background.WaitGroup
	defer working.Wait()
	for {
		more := false
		if c.room() {
			var due []notify.Callback
			err := background.Do("webhook calls", func() (err error) {
				due, err = c.o.Store.Callbacks(ctx, owner, callsFetched, callLease)
				return err
			})
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				c.o.Log.Error("read webhook calls failed", "error", err)
			}
			for _, cb := range due {
				c.enqueue(ctx, cb, &working)
			}
			more = len(due) == callsFetched
		}
		if more {
			continue
		}
		timer := time.NewTimer(callPoll)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-c.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (c *caller) room() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held+callsFetched <= callsHeld
}

// enqueue adds a call to the queue of its webhook and starts a goroutine for it
// if there is none.
func (c *caller) enqueue(ctx context.Context, cb notify.Callback, working *background.WaitGroup) {
	c.mu.Lock()
	queue, atWork := c.queues[cb.WebhookID]
	full := len(queue) >= callsQueued
	if !full {
		c.queues[cb.WebhookID] = append(queue, cb)
		c.held++
	}
	c.mu.Unlock()
	switch {
	case full: // it cannot keep up
		c.postpone(ctx, cb, c.o.steady().Add(callSchedule.First))
	case !atWork:
		working.Loop(ctx, "webhook calls", func() { c.work(ctx, cb.WebhookID) })
	}
}

// work makes the calls of one webhook until its queue is empty. After a failed
// call, the others are postponed with it, because they would fail too.
func (c *caller) work(ctx context.Context, webhook string) {
	for {
		c.mu.Lock()
		queue := c.queues[webhook]
		if len(queue) == 0 || ctx.Err() != nil {
			delete(c.queues, webhook)
			c.held -= len(queue)
			c.mu.Unlock()
			c.wake.send() // the queue has room again
			return
		}
		cb := queue[0]
		c.queues[webhook] = queue[1:]
		c.held--
		c.mu.Unlock()
		if c.call(ctx, cb) {
			continue
		}
		c.mu.Lock()
		rest := c.queues[webhook]
		c.queues[webhook] = nil
		c.held -= len(rest)
		c.mu.Unlock()
		until := c.o.steady().Add(callSchedule.pause(cb.Attempts+1, 0))
		for _, other := range rest {
			c.postpone(ctx, other, until)
		}
	}
}

// call makes one call. A call that is interrupted by the end of the process is
// repeated: a receiver may get an event twice, and recognizes it by its id.
func (c *caller) call(ctx context.Context, cb notify.Callback) bool {
	err := background.Do("webhook call", func() error { return c.deliver(ctx, cb) })
	if ctx.Err() != nil {
		return false
	}
	var again time.Time
	result := "ok"
	attempt := cb.Attempts + 1
	if err != nil {
		if attempt < callSchedule.Attempts {
			result, again = "again", c.o.steady().Add(callSchedule.pause(attempt, 0))
		} else {
			result = "dropped"
		}
		c.o.Log.Warn("webhook call failed", "webhook", cb.WebhookID, "attempt", attempt, "result", result, "error", err)
	}
	c.o.Metrics.called(result)
	c.record(ctx, cb.ID, attempt, again)
	return err == nil
}

func (c *caller) deliver(ctx context.Context, cb notify.Callback) error {
	answer, err := c.post.Post(ctx, outbound.Call{URL: cb.URL, Secret: cb.Secret, Body: cb.Payload, At: c.o.Now()})
	if err == nil && !answer.OK() {
		err = fmt.Errorf("status %s, want 2xx", answer)
	}
	return err
}

// postpone schedules a call that was not made. That is no attempt, but calls of a webhook that
// does not answer must not pile up: those that are older than all attempts take are dropped.
func (c *caller) postpone(ctx context.Context, cb notify.Callback, until time.Time) {
	if c.o.Now().Sub(madeAt(cb)) > callsKept {
		c.o.Log.Warn("webhook call dropped: the webhook does not answer, or cannot keep up", "webhook", cb.WebhookID,
			"attempts", cb.Attempts)
		c.o.Metrics.called("dropped")
		until = time.Time{}
	}
	c.record(ctx, cb.ID, cb.Attempts, until)
}

// madeAt returns the time of the newest event of a call.
func madeAt(cb notify.Callback) (at time.Time) {
	var call Call
	_ = json.Unmarshal(cb.Payload, &call) // one that cannot be read is dropped
	for _, e := range call.Events {
		if e.UpdatedAt.After(at) {
			at = e.UpdatedAt
		}
	}
	return at
}

// record deletes a call or schedules it again.
func (c *caller) record(ctx context.Context, id string, attempts int, again time.Time) {
	err := background.Do("webhook call", func() error { return c.o.Store.FinishCallback(ctx, id, attempts, again) })
	if err != nil && ctx.Err() == nil {
		c.o.Log.Error("record webhook call failed", "error", err)
	}
}
