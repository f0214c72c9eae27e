package provider

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/outbound"
)

// Options configure a Channel.
type Options struct {
	Providers interface {
		// ProvidersFor returns those that deliver a client's messages.
		ProvidersFor(ctx context.Context, clientID string, c notify.ChannelID) ([]notify.Provider, error)
	}
	Client *outbound.Client
	// PerClient is how many messages of a client are in the channel at a time (100).
	PerClient int
	// Grace is how long calls may take after the end of Deliver's context (3 s): what is interrupted may
	// have been accepted.
	Grace time.Duration
	// Breaker configures those of providers.
	Breaker failover.Options
	// Servers returns how many servers share the rates of providers; nil means one.
	Servers func() int
	// Random returns numbers from 0 to 1, for the choice by weight.
	Random func() float64
	Log    *slog.Logger
	Now    func() time.Time
}

// Channel delivers messages by providers. It implements notify.Channel.
type Channel struct {
	id notify.ChannelID
	o  Options

	queue *outbound.Queue

	mu    sync.Mutex
	lines map[lineKey]*line
}

var _ notify.Channel = (*Channel)(nil)

// lineCallers is how many calls of a provider there are at a time, which clients may share.
const lineCallers = 16

// NewChannel returns the channel with an id that has providers.
func NewChannel(id notify.ChannelID, o Options) *Channel {
	if o.Servers == nil {
		o.Servers = func() int { return 1 }
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Channel{id: id, o: o, lines: map[lineKey]*line{}, queue: outbound.NewQueue(outbound.QueueOptions{
		PerClient: o.PerClient, Grace: o.Grace, Now: o.Now,
		Full: "waiting: the providers get others of the client's messages first"})}
}

// Deliver implements notify.Channel.
func (c *Channel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(i int, r notify.Result)) {
	c.queue.Deliver(ctx, batch, unusable, c.work, done)
}

// unusable returns why a message cannot be delivered by any provider.
func unusable(o *notify.Outgoing) string {
	if !notify.UsablePhone(o.To) {
		return "the recipient's phone number is not in the form +4915112345678"
	}
	return notify.UserProblem(o.UserID)
}

// route is a provider that a message may take.
type route struct {
	*Compiled
	line   *line
	weight int
}

// work returns how the messages of a client are delivered.
func (c *Channel) work(ctx context.Context, id string) outbound.Work {
	routes, why, err := c.routes(ctx, id)
	if len(routes) == 0 {
		r := notify.Result{Verdict: notify.Permanent, Reason: why}
		if err != nil {
			r = notify.Result{Verdict: notify.Temporary, Reason: "the providers could not be read", Untried: true}
			c.o.Log.Error("read providers failed, messages postponed", "channel", c.id, "client", id, "error", err)
		}
		return outbound.Work{Instead: &r}
	}
	return outbound.Work{Pace: pace(routes), Close: func() { leaveAll(routes) },
		One: func(ctx, calls context.Context, o *notify.Outgoing) notify.Result {
			return c.attempt(ctx, calls, routes, job{Outgoing: o}, &trial{})
		}}
}

// routes returns the providers of a client, or why there are none.
func (c *Channel) routes(ctx context.Context, client string) (routes []route, why string, err error) {
	var list []notify.Provider
	if err := background.Do("providers", func() (err error) {
		list, err = c.o.Providers.ProvidersFor(ctx, client, c.id)
		return err
	}); err != nil {
		return nil, "", err
	}
	why = fmt.Sprintf("no provider delivers messages on %s: declare one with PUT /providers/NAME", c.id)
	for _, p := range list {
		compiled, err := Compile(p)
		if err != nil { // it was checked when it was declared, by another version of the program
			why = fmt.Sprintf("the provider %q cannot be used: %s", p.Name, err)
			continue
		}
		routes = append(routes, route{compiled, c.line(&p), p.Weight})
	}
	return routes, why, nil
}

func leaveAll(routes []route) {
	for _, r := range routes {
		r.line.leave()
	}
}

// pace returns how long a message takes if all providers are limited; 0 if one is not.
func pace(routes []route) time.Duration {
	sum := 0.0
	for _, r := range routes {
		if r.line.rate == 0 {
			return 0
		}
		sum += r.line.rate
	}
	return time.Duration(float64(time.Second) / sum)
}
