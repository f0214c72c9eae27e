package delivery

import (
	"context"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

// run makes calls until ctx ends. Each webhook has a line of its own, so that
// one that is slow or away keeps no other waiting.
func (c *caller) run(ctx context.Context, owner string) {
	defer c.post.close()
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
				c.o.Log.Error("calls of webhooks cannot be read", "error", err)
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

// enqueue puts a call into the line of its webhook, and has somebody work on it.
func (c *caller) enqueue(ctx context.Context, cb notify.Callback, working *background.WaitGroup) {
	c.mu.Lock()
	line, atWork := c.lines[cb.WebhookID]
	full := len(line) >= callsInLine
	if !full {
		c.lines[cb.WebhookID] = append(line, cb)
		c.held++
	}
	c.mu.Unlock()
	switch {
	case full: // it cannot keep up
		c.record(ctx, cb, c.o.Now().Add(callSchedule.First))
	case !atWork:
		working.Loop(ctx, "webhook calls", func() { c.work(ctx, cb.WebhookID) })
	}
}

// work makes the calls of one webhook until its line is empty. After one that
// failed the others would fail too: they are put off with it.
func (c *caller) work(ctx context.Context, webhook string) {
	for {
		c.mu.Lock()
		line := c.lines[webhook]
		if len(line) == 0 || ctx.Err() != nil {
			delete(c.lines, webhook)
			c.held -= len(line)
			c.mu.Unlock()
			c.wake.poke() // there is room again
			return
		}
		cb := line[0]
		c.lines[webhook] = line[1:]
		c.held--
		c.mu.Unlock()
		if c.call(ctx, cb) {
			continue
		}
		c.mu.Lock()
		rest := c.lines[webhook]
		c.lines[webhook] = nil
		c.held -= len(rest)
		c.mu.Unlock()
		for _, other := range rest {
			c.record(ctx, other, c.o.Now().Add(callSchedule.pause(other.Attempts+1, 0)))
		}
	}
}

// call makes one call. What is cut off by the end of the process is made again:
// a receiver may hear of an event twice, and knows it by its ids.
func (c *caller) call(ctx context.Context, cb notify.Callback) bool {
	err := background.Do("webhook call", func() error { return c.post.do(ctx, cb, c.o.Now()) })
	if ctx.Err() != nil {
		return false
	}
	var again time.Time
	result := "ok"
	if err != nil {
		attempt := cb.Attempts + 1
		if attempt < callSchedule.Attempts {
			result, again = "again", c.o.Now().Add(callSchedule.pause(attempt, 0))
		} else {
			result = "dropped"
		}
		c.o.Log.Warn("a webhook did not take a call", "webhook", cb.WebhookID, "attempt", attempt, "result", result, "error", err)
	}
	c.o.Metrics.called(result)
	c.record(ctx, cb, again)
	return err == nil
}

// record removes a call, or puts it off.
func (c *caller) record(ctx context.Context, cb notify.Callback, again time.Time) {
	err := background.Do("webhook call", func() error { return c.o.Store.FinishCallback(ctx, cb.ID, again) })
	if err != nil && ctx.Err() == nil {
		c.o.Log.Error("a call of a webhook cannot be recorded", "error", err)
	}
}
