package outbound

import (
	"context"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

// PerClient delivers a batch: messages of different clients concurrently. Messages for which unusable returns a reason
// fail for good. deliver gets the messages of a client as indexes, and beside the batch's context one for calls: a call
// that has begun is not canceled at once but after grace, because it would not be known whether it was accepted.
func PerClient(ctx context.Context, grace time.Duration, batch []notify.Outgoing,
	unusable func(*notify.Outgoing) string, deliver func(ctx, calls context.Context, client string, list []int),
	done func(int, notify.Result)) {
	byClient := map[string][]int{}
	for i := range batch {
		if why := unusable(&batch[i]); why != "" {
			done(i, notify.Result{Verdict: notify.Permanent, Reason: why})
			continue
		}
		byClient[batch[i].ClientID] = append(byClient[batch[i].ClientID], i)
	}
	calls, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer background.OnDone(ctx, "end of calls", func() {
		timer := background.AfterFunc("end of calls", grace, end)
		background.OnDone(calls, "end of calls", func() { timer.Stop() })
	})()
	var all background.WaitGroup
	for id, list := range byClient {
		all.Go("messages of a client", func() { deliver(ctx, calls, id, list) })
	}
	all.Wait()
}
