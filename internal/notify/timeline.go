package notify

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Timelines tells what became of messages.
type Timelines interface {
	// Progress returns what became of the recipients of messages on the other channels of the same sends. A
	// recipient that has no message on a channel, or no longer, has no entry. What has left the inbox counts as read.
	Progress(ctx context.Context, of []Message) (map[int64]map[ChannelID]Progress, error)
	// Timeline is ErrNotFound for a message that does not exist.
	Timeline(ctx context.Context, number int64) (Timeline, error)
}

// Attempt is a delivery attempt that failed and was not the last.
type Attempt struct {
	Number int // from 1
	At     time.Time
	Reason string
}

// Passage is one message of a recipient, with what its present state does not say.
type Passage struct {
	Message
	Attempts []Attempt
	// Read and Archived are set in the inbox.
	Read, Archived time.Time
}

// Timeline is all that is stored about a notification of one recipient.
type Timeline struct {
	Send Send
	// Passages are the recipient's messages on all channels; that to a chat is for all recipients.
	Passages []Passage
}

// Event is an entry of a timeline.
type Event struct {
	// At is when it happened, or for Waiting when it is to happen.
	At   time.Time
	Name EventName
	// Message is the number of the message; zero for events of the whole send, which have no channel either.
	Message int64
	Channel ChannelID
	Attempt int // from 1; zero if it is not an attempt
	Reason  string
}

// EventName says what happened: one of these, or a final Status of a message.
type EventName string

const (
	EventAccepted EventName = "accepted"
	EventDue      EventName = "due" // the time of a scheduled send
	EventAttempt  EventName = "attempt_failed"
	EventRead     EventName = "read"
	EventArchived EventName = "archived"
	// EventWaiting is in the future: the next attempt, or the decision of a workflow.
	EventWaiting EventName = "waiting"
)

// Events returns the events in order of their times.
func (t *Timeline) Events() []Event {
	all := []Event{{At: t.Send.Received, Name: EventAccepted}}
	if !t.Send.SendAt.IsZero() {
		all = append(all, Event{At: t.Send.SendAt, Name: EventDue})
	}
	for i := range t.Passages {
		all = append(all, t.Passages[i].events(t.Send.Workflow)...)
	}
	slices.SortStableFunc(all, func(a, b Event) int { return a.At.Compare(b.At) })
	return all
}

func (p *Passage) events(w *Workflow) []Event {
	var all []Event
	add := func(at time.Time, name EventName, attempt int, reason string) {
		if !at.IsZero() {
			all = append(all, Event{at, name, p.Number, p.Channel, attempt, reason})
		}
	}
	for _, a := range p.Attempts {
		add(a.At, EventAttempt, a.Number, a.Reason)
	}
	if p.Status.Final() {
		add(p.Updated, EventName(p.Status), p.Message.Attempts, p.Reason)
	} else {
		reason := p.Reason
		if p.Collected {
			reason = "collected in a digest, which is sent by then"
		} else if s := w.Step(p.Channel); s != nil && p.Message.Attempts == 0 {
			reason = cmp.Or(reason, s.String())
		}
		add(p.Due, EventWaiting, 0, reason)
	}
	add(p.Read, EventRead, 0, "")
	add(p.Archived, EventArchived, 0, "")
	return all
}
