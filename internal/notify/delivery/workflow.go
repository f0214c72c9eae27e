package delivery

import (
	"context"
	"fmt"
	"time"

	"ingot/internal/notify"
)

const (
	// A step that waits for the end of another message is looked at again after undecidedFirst, and then after a part
	// of the time that it has waited, up to undecidedMost: many that wait for a mail server cost little.
	undecidedFirst = time.Second
	undecidedMost  = 5 * time.Minute
	undecidedPart  = 4

	reasonWaits = "the workflow waits for the end of the recipient's message on another channel"
)

// workflow removes messages whose step is not to be taken, and postpones those about which it is not known yet.
func (d *Delivery) workflow(ctx context.Context, s *sorted) error {
	var asked []notify.Message
	var about []*message
	conditions := false
	for i := range s.ready {
		l := &s.ready[i]
		step := l.Send.Workflow.Step(l.Channel)
		if step == nil || step.If == nil {
			continue
		}
		conditions = true
		if step.AsksOthers() {
			asked, about = append(asked, l.Message), append(about, l)
		}
	}
	if !conditions {
		return nil
	}
	progress, err := d.o.Store.Progress(ctx, asked)
	if err != nil {
		return fmt.Errorf("look up other messages of recipients: %w", err)
	}
	if err := d.choices(ctx, about); err != nil {
		return err
	}
	s.keep(func(l *message) (notify.Outcome, bool) {
		step := l.Send.Workflow.Step(l.Channel)
		if step == nil || step.If == nil {
			return notify.Outcome{}, false
		}
		data, err := d.contents.data.of(ctx, l)
		if err != nil {
			return postpone(l, reasonStore, d.o.Now(), d.later()), true
		}
		switch step.If.Decide(notify.Situation{Critical: l.Send.Critical, Data: data, Others: progress[l.Number],
			Unwanted: l.choice.Unwanted}) {
		case notify.Yes:
			return notify.Outcome{}, false
		case notify.Undecided:
			return d.undecided(l, time.Duration(step.After)), true
		}
		return untried(l.Message, notify.Skipped, "the workflow takes this step only if "+step.If.String(), d.o.Now()), true
	})
	return nil
}

// undecided postpones a step.
func (d *Delivery) undecided(l *message, after time.Duration) notify.Outcome {
	now, steady := d.o.Now(), d.o.steady()
	began := l.Send.Received
	if l.Send.SendAt.After(began) {
		began = l.Send.SendAt
	}
	waited := now.Sub(began.Add(after))
	due := steady.Add(min(max(waited/undecidedPart, undecidedFirst), undecidedMost))
	if !l.Send.ExpiresAt.IsZero() {
		due = earlier(due, steady.Add(max(0, l.Send.ExpiresAt.Sub(now))))
	}
	return postpone(l, reasonWaits, now, due)
}
