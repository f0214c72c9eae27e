package hook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
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
	id      notify.ChannelID
	o       Options
	callers int // calls of a client at a time

	mu      sync.Mutex
	clients map[string]*client
}

var _ notify.Channel = (*Channel)(nil)

const (
	defaultPerClient = 100
	defaultGrace     = 3 * time.Second
	// hookCallers is how many calls of a client a webhook gets at a time. A chat gets one, to keep the order.
	hookCallers = 8
)

// NewChannel returns the channel notify.Hook or notify.Chat.
func NewChannel(id notify.ChannelID, o Options) *Channel {
	if o.PerClient <= 0 {
		o.PerClient = defaultPerClient
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	callers := hookCallers
	if id == notify.Chat {
		callers = 1
	}
	return &Channel{id: id, o: o, callers: callers, clients: map[string]*client{}}
}

// Deliver implements notify.Channel.
func (c *Channel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(i int, r notify.Result)) {
	outbound.PerClient(ctx, c.o.Grace, batch, c.unusable, func(ctx, calls context.Context, id string, list []int) {
		c.deliver(ctx, calls, id, batch, list, done)
	}, done)
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

// deliver makes the calls for messages of one client. calls is for calls that were begun.
func (c *Channel) deliver(ctx, calls context.Context, id string, batch []notify.Outgoing, list []int,
	done func(int, notify.Result)) {
	to, err := c.destination(ctx, id)
	if err != nil {
		r := notify.Result{Verdict: notify.Permanent, Reason: err.Error()}
		if !errors.Is(err, notify.ErrNotFound) {
			r = notify.Result{Verdict: notify.Temporary, Reason: "the database was unavailable", Untried: true}
		}
		for _, i := range list {
			done(i, r)
		}
		return
	}
	of := c.enter(id, to.Updated)
	defer of.leave()
	n := of.admit(len(list), c.o.PerClient)
	for _, i := range list[n:] {
		done(i, of.later(c.o.Now()))
	}
	list = list[:n]
	next := make(chan int, len(list))
	for _, i := range list {
		next <- i
	}
	close(next)
	var all background.WaitGroup
	for range min(c.callers, len(list)) {
		all.Go("calls of a client", func() {
			for i := range next {
				c.deliverOne(ctx, calls, of, to, &batch[i], func(r notify.Result) { done(i, r) })
			}
		})
	}
	all.Wait()
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

// deliverOne delivers a message when it is its turn.
func (c *Channel) deliverOne(ctx, calls context.Context, of *client, to notify.Destination, o *notify.Outgoing,
	done func(notify.Result)) {
	defer of.admit(-1, 0)
	stopping := notify.Result{Verdict: notify.Temporary, Reason: "not called: the server was stopping", Untried: true}
	select {
	case of.slots <- struct{}{}:
	case <-ctx.Done():
		done(stopping)
		return
	}
	// The slot is free when the outcome is recorded, so that a crash repeats no more calls than there are slots.
	defer func() { <-of.slots }()
	if ctx.Err() != nil {
		done(stopping)
		return
	}
	if r, resting := of.resting(c.o.Now()); resting {
		done(r)
		return
	}
	r := notify.Result{Verdict: notify.Temporary, Reason: "the call ended unexpectedly"}
	_ = background.Do("call of a destination", func() error {
		r = c.call(ctx, calls, of, to, o)
		return nil
	})
	done(r)
}

func (c *Channel) call(ctx, calls context.Context, of *client, to notify.Destination,
	o *notify.Outgoing) notify.Result {
	body, err := c.encode(to, o)
	if err != nil {
		return notify.Result{Verdict: notify.Permanent, Reason: "the message cannot be encoded: " + err.Error()}
	}
	began := c.o.Now()
	call := outbound.Call{URL: to.URL, Secret: to.Secret, Body: body, At: began}
	if c.id == notify.Hook {
		call.Key = o.ID
	}
	a, err := c.o.Client.Post(calls, call)
	now := c.o.Now()
	switch {
	case err != nil && ctx.Err() != nil:
		return notify.Result{Verdict: notify.Temporary, Reason: "the call was interrupted: the server was stopping"}
	case err != nil:
		c.o.Log.Warn("call of a destination failed", "channel", c.id, "client", o.ClientID, "message", o.ID, "error", err)
		return of.failed(err, now)
	}
	of.took(now.Sub(began), now, a)
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
