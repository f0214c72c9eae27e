package channeltest

import (
	"context"

	"ingot/internal/base/faulttest"
	"ingot/internal/notify"
)

// Faulty returns c with faults.
func Faulty(c notify.Channel, f *faulttest.Faults) notify.Channel { return faultyChannel{c, f} }

type faultyChannel struct {
	notify.Channel
	*faulttest.Faults
}

func (c faultyChannel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	if err := c.Inject(ctx, "deliver"); err != nil {
		for i := range batch {
			done(i, notify.Result{Verdict: notify.Temporary, Reason: err.Error()})
		}
		return
	}
	c.Channel.Deliver(ctx, batch, done)
}
