package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/template"
)

// Options configure a Channel.
type Options struct {
	Destinations interface {
		// Destination is notify.ErrNotFound if the client has none for the channel.
		Destination(ctx context.Context, clientID string, c notify.ChannelID) (notify.Destination, error)
	}
	Client *outbound.Client
	// PerClient is how many messages of a client are in the channel at a time (100).
	PerClient int
	// Grace is how long calls may take after the end of Deliver's context (3 s): what is interrupted may
	// have been accepted.
	Grace time.Duration
	Log   *slog.Logger
	Now   func() time.Time
}

// Channel delivers messages to the destinations of clients. It implements notify.Channel.
type Channel struct {
	id       notify.ChannelID
	o        Options
	queue    *outbound.Queue
	breakers *failover.Group[receiver]
}

// receiver is the destination of a client as it was set at a time: one that was changed is called at once.
type receiver struct {
	client  string
	changed int64
}

var _ notify.Channel = (*Channel)(nil)

// NewChannel returns the channel notify.Hook or notify.Chat.
func NewChannel(id notify.ChannelID, o Options) *Channel {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	callers := 0
	if id == notify.Chat {
		callers = 1 // to keep the order
	}
	return &Channel{
		id: id, o: o,
		// Each call of a receiver that does not answer takes long, so the first one counts.
		breakers: failover.NewGroup[receiver](failover.Options{Failures: 1}),
		queue: outbound.NewQueue(outbound.QueueOptions{PerClient: o.PerClient, Callers: callers, Grace: o.Grace, Now: o.Now,
			Full: "waiting: the receiver gets others of the client's messages first"}),
	}
}

// Deliver implements notify.Channel.
func (c *Channel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(i int, r notify.Result)) {
	c.queue.Deliver(ctx, batch, c.unusable, c.open, done)
}

// unusable returns why a message has no recipient that a receiver could be told. A chat is not told any.
func (c *Channel) unusable(o *notify.Outgoing) string {
	switch {
	case c.id == notify.Chat:
		return ""
	case o.UserID == "" && o.To == "":
		return "the message has neither a user nor an address"
	case o.UserID == "" && !notify.UsableAddress(o.To):
		return "the email address is malformed"
	}
	return notify.UserProblem(o.UserID)
}

// open returns how the messages of a client are delivered.
func (c *Channel) open(ctx context.Context, client string) outbound.Work {
	to, err := c.destination(ctx, client)
	switch {
	case errors.Is(err, notify.ErrNotFound):
		return outbound.Work{Instead: &notify.Result{Verdict: notify.Permanent, Reason: err.Error()}}
	case err != nil:
		return outbound.Work{Instead: &notify.Result{Verdict: notify.Temporary, Reason: "the database was unavailable",
			Untried: true}}
	}
	breaker := c.breakers.Of(receiver{client, to.Updated.UnixNano()})
	return outbound.Work{One: func(ctx, calls context.Context, o *notify.Outgoing) notify.Result {
		return c.deliver(ctx, calls, breaker, to, o)
	}}
}

// errNone means that a client has no destination.
type errNone struct{ channel notify.ChannelID }

func (e errNone) Error() string {
	return fmt.Sprintf("the client has no destination for %s: set one with PUT /destinations/%s", e.channel, e.channel)
}

func (errNone) Unwrap() error { return notify.ErrNotFound }

func (c *Channel) destination(ctx context.Context, client string) (d notify.Destination, err error) {
	err = background.Do("destinations", func() (err error) {
		d, err = c.o.Destinations.Destination(ctx, client, c.id)
		return err
	})
	if errors.Is(err, notify.ErrNotFound) {
		return d, errNone{c.id}
	}
	return d, err
}

// deliver calls the receiver, unless it is left alone.
func (c *Channel) deliver(ctx, calls context.Context, breaker *failover.Breaker, to notify.Destination,
	o *notify.Outgoing) notify.Result {
	body, err := c.encode(to, o)
	if err != nil {
		return notify.Result{Verdict: notify.Permanent, Reason: "the message cannot be encoded: " + err.Error()}
	}
	call := outbound.Call{URL: to.URL, Secret: to.Secret, Body: body, At: c.o.Now()}
	if c.id == notify.Hook {
		call.Key = o.ID
	}
	allowed, refusal := breaker.Try(call.At)
	switch {
	case refusal == nil:
	case refusal.Asked || refusal.Trying:
		return notify.Result{Verdict: notify.Temporary, Reason: "waiting: " + refusal.Why, Untried: true,
			RetryAfter: refusal.For}
	default: // the messages behind one that was not answered have failed too: each would take as long again
		return notify.Result{Verdict: notify.Temporary, Reason: refusal.Why}
	}
	finished := false
	defer func() {
		if !finished { // it panicked
			allowed.Dropped()
		}
	}()
	a, err := c.o.Client.Post(calls, call)
	finished = true
	switch {
	case err != nil && ctx.Err() != nil:
		allowed.Dropped()
		return notify.Result{Verdict: notify.Temporary, Reason: "the call was interrupted: the server was stopping"}
	case err != nil:
		c.o.Log.Warn("call of a destination failed", "channel", c.id, "client", o.ClientID, "message", o.ID, "error", err)
		reason := "the receiver did not answer: " + err.Error()
		allowed.Failed(c.o.Now(), reason)
		return notify.Result{Verdict: notify.Temporary, Reason: reason}
	case (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable) && a.RetryAfter > 0:
		allowed.Asked(c.o.Now(), a.RetryAfter, "the receiver asked to be called later ("+a.String()+")")
	default:
		allowed.Succeeded()
	}
	return c.judge(a)
}

// judge returns what a receiver's answer means for the message.
func (c *Channel) judge(a outbound.Answer) notify.Result {
	if a.OK() {
		return notify.Result{Verdict: notify.Accepted}
	}
	reason := a.String()
	if text := template.OneLine(a.Text); text != "" {
		reason += ": " + text
	}
	r := notify.Result{Verdict: notify.Permanent, Reason: reason}
	switch {
	case a.Status >= 300 && a.Status <= 399:
		r.Reason += " (redirects are not followed: set the address that it leads to)"
	case a.Status == http.StatusGone:
		r.Reason += " (the destination no longer exists: set another)"
	case a.Status == http.StatusNotFound && c.id == notify.Hook, a.Status == http.StatusRequestTimeout,
		a.Status == http.StatusTooEarly, a.Status == http.StatusTooManyRequests, a.Status >= 500:
		// A route of an app that is not running answers 404 too.
		r.Verdict, r.RetryAfter = notify.Temporary, a.RetryAfter
	}
	return r
}
