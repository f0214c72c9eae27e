package push

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/provider"
	"ingot/internal/notify/template"
)

// Options configure a Channel.
type Options struct {
	Store interface {
		// DeletePushSubscription is for those that no longer exist.
		DeletePushSubscription(ctx context.Context, of notify.Owner, id string) error
		// PushAccepted remembers which browsers have a message that is tried again for others.
		PushAccepted(ctx context.Context, message int64, ids []string) error
	}
	Client *outbound.Client
	Keys   *Keys
	// Devices delivers to devices that are no browsers, by providers. It has its own client, so that they share nothing
	// with browsers.
	Devices *provider.Channel
	// PerClient and Grace are those of outbound.QueueOptions.
	PerClient int
	Grace     time.Duration
	// Breaker configures those of push services.
	Breaker failover.Options
	Log     *slog.Logger
	Now     func() time.Time
}

// Channel delivers messages to browsers and devices. It implements notify.Channel.
type Channel struct {
	o     Options
	queue *outbound.Queue
	// breakers are of clients and push services: what one client's users subscribe to does not pause others.
	breakers *failover.Group[service]
}

var _ notify.Channel = (*Channel)(nil)

type service struct{ client, host string }

const (
	// patience is the number of attempts after which a message counts as delivered if one of the user's browsers has it.
	patience = 5
	// usualLife is how long a push service keeps a message that does not expire, and longestLife what they allow.
	usualLife   = 3 * 24 * time.Hour
	longestLife = 28 * 24 * time.Hour
)

// NewChannel returns the channel notify.Push.
func NewChannel(o Options) *Channel {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Devices == nil {
		o.Devices = provider.NewChannel(notify.Push, provider.Options{Providers: noProviders{}, Client: o.Client})
	}
	return &Channel{o: o, breakers: failover.NewGroup[service](o.Breaker),
		queue: outbound.NewQueue(outbound.QueueOptions{PerClient: o.PerClient,
			Grace: o.Grace, Now: o.Now, Full: "waiting: the browsers get others of the client's messages first"})}
}

// noProviders is for services in which no client can declare any.
type noProviders struct{}

// ProvidersFor returns none.
func (noProviders) ProvidersFor(context.Context, string, notify.ChannelID) ([]notify.Provider, error) {
	return nil, nil
}

// Deliver implements notify.Channel.
func (c *Channel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(i int, r notify.Result)) {
	c.queue.Deliver(ctx, batch, unusable, func(_ context.Context, client string) outbound.Work {
		devices := c.o.Devices.Devices(client)
		return outbound.Work{Close: devices.Close,
			One: func(ctx, calls context.Context, o *notify.Outgoing) notify.Result {
				return c.deliver(ctx, calls, devices, o)
			}}
	}, done)
}

// unusable returns why a message reaches no browser.
func unusable(o *notify.Outgoing) string {
	switch {
	case o.UserID == "":
		return "the recipient has no user, and only users have browsers and devices"
	case len(o.Browsers) == 0:
		return "the user has no browser that is subscribed, and no device"
	}
	return notify.UserProblem(o.UserID)
}

// tried is what became of a message at one browser or device.
type tried struct{ notify.Result }

// deliver sends a message to all browsers and devices of its user that do not have it.
func (c *Channel) deliver(ctx, calls context.Context, devices *provider.Devices, o *notify.Outgoing) notify.Result {
	p, why := newPayload(o)
	if why != "" {
		return notify.Result{Verdict: notify.Permanent, Reason: why}
	}
	all := make([]tried, len(o.Browsers))
	var sends background.WaitGroup
	for i := range o.Browsers {
		b := &o.Browsers[i]
		if b.Accepted(o.Number) {
			all[i].Verdict = notify.Accepted
			continue
		}
		all[i] = tried{Result: notify.Result{Verdict: notify.Temporary, Reason: "the delivery ended unexpectedly"}}
		sends.Go("push to a browser", func() {
			if b.Device() {
				all[i] = c.sendToDevice(ctx, calls, devices, o, b, p)
			} else {
				all[i] = c.send(ctx, calls, o, b, p)
			}
		})
	}
	sends.Wait()
	return c.conclude(ctx, o, all)
}

// conclude returns the result of a message. It is delivered when all browsers have it that are still subscribed; if
// some do not answer for long, when one has it.
func (c *Channel) conclude(ctx context.Context, o *notify.Outgoing, all []tried) notify.Result {
	var fresh, failed []string
	accepted, untried := 0, 0
	r := notify.Result{Verdict: notify.Permanent}
	for i := range all {
		t, b := &all[i], &o.Browsers[i]
		switch {
		case t.Verdict == notify.Accepted:
			accepted++
			if !b.Accepted(o.Number) {
				fresh = append(fresh, b.ID)
			}
			continue
		case t.Untried:
			untried++
		}
		if t.Verdict == notify.Temporary {
			r.Verdict, r.RetryAfter = notify.Temporary, max(r.RetryAfter, t.RetryAfter)
		}
		failed = append(failed, b.Service()+": "+t.Reason)
	}
	r.Reason = strings.Join(failed, "; ")
	if accepted == 0 {
		r.Untried = untried == len(all)
		return r
	}
	if len(all) > 1 {
		r.Via = fmt.Sprintf("accepted by %d of %d %s", accepted, len(all), receivers(o))
		if len(failed) > 0 {
			r.Via += "; not by " + r.Reason
		}
	}
	if r.Verdict == notify.Permanent || o.Attempt >= patience {
		return notify.Result{Verdict: notify.Accepted, Via: r.Via}
	}
	c.remember(ctx, o, fresh)
	r.Reason = fmt.Sprintf("%d of %d %s have it: %s", accepted, len(all), receivers(o), r.Reason)
	return r
}

// receivers says to what a message goes.
func receivers(o *notify.Outgoing) string {
	devices := 0
	for i := range o.Browsers {
		if o.Browsers[i].Device() {
			devices++
		}
	}
	switch devices {
	case 0:
		return "browsers"
	case len(o.Browsers):
		return "devices"
	}
	return "browsers and devices"
}

// remember records which browsers have a message that is tried again. If that fails, they get it again, and show it in
// the place of the first one.
func (c *Channel) remember(ctx context.Context, o *notify.Outgoing, ids []string) {
	if len(ids) == 0 {
		return
	}
	err := background.Do("push subscriptions", func() error {
		return c.o.Store.PushAccepted(context.WithoutCancel(ctx), o.Number, ids)
	})
	if err != nil {
		c.o.Log.Warn("record which browsers have a message failed", "message", o.ID, "error", err)
	}
}

// send sends a message to one browser.
func (c *Channel) send(ctx, calls context.Context, o *notify.Outgoing, b *notify.PushSubscription, p *payload) tried {
	if ctx.Err() != nil {
		return tried{Result: outbound.Stopping}
	}
	call, refusal := c.breakers.Of(service{o.ClientID, b.Service()}).Try(c.o.Now())
	if refusal != nil {
		r := notify.Result{Verdict: notify.Temporary, Reason: "left alone after " + refusal.Why}
		if refusal.Trying { // it may answer again
			r.Untried, r.RetryAfter = true, refusal.For
		}
		return tried{Result: r}
	}
	finished := false
	defer func() {
		if !finished { // also after a panic
			call.Dropped()
		}
	}()
	a, err := c.post(calls, o, b, p, MaxPlain)
	if err == nil && a.Status == http.StatusRequestEntityTooLarge {
		a, err = c.post(calls, o, b, p, less)
	}
	finished = true
	now := c.o.Now()
	var bad notUsable
	switch {
	case err == nil:
	case errors.As(err, &bad):
		call.Dropped()
		return tried{Result: notify.Result{Verdict: notify.Permanent, Reason: bad.Error()}}
	case ctx.Err() != nil:
		call.Dropped()
		return tried{Result: notify.Result{Verdict: notify.Temporary,
			Reason: "the call was interrupted: the server was stopping"}}
	default:
		why := "no answer: " + err.Error()
		c.o.Log.Warn("call of a push service failed", "client", o.ClientID, "service", b.Service(), "message", o.ID,
			"error", err)
		call.Failed(now, why)
		return tried{Result: notify.Result{Verdict: notify.Temporary, Reason: why}}
	}
	if a.Status >= http.StatusInternalServerError {
		call.Failed(now, a.String())
	} else {
		call.Succeeded() // a push service that says no to one browser is well
	}
	return c.judge(ctx, b, a)
}

// judge returns what the answer of a push service means.
func (c *Channel) judge(ctx context.Context, b *notify.PushSubscription, a outbound.Answer) tried {
	if a.OK() {
		return tried{Result: notify.Result{Verdict: notify.Accepted}}
	}
	t := tried{Result: notify.Result{Verdict: notify.Permanent, Reason: a.String()}}
	switch {
	case a.Status == http.StatusNotFound, a.Status == http.StatusGone:
		t.Reason += " (the browser is no longer subscribed: the subscription was removed)"
		c.remove(ctx, b)
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
		t.Reason += " (the browser subscribed with another key: it has to subscribe again)"
	case a.Status == http.StatusRequestEntityTooLarge:
		t.Reason += " (the push service does not take a message of this size)"
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly,
		a.Status == http.StatusTooManyRequests, a.Status >= http.StatusInternalServerError:
		t.Verdict, t.RetryAfter = notify.Temporary, a.RetryAfter
	case a.Text != "":
		t.Reason += ": " + a.Text
	}
	return t
}

// remove deletes a subscription that has ended. If that fails, the next message finds it again.
func (c *Channel) remove(ctx context.Context, b *notify.PushSubscription) {
	err := background.Do("push subscriptions", func() error {
		return c.o.Store.DeletePushSubscription(context.WithoutCancel(ctx), b.Owner, b.ID)
	})
	if err != nil && !errors.Is(err, notify.ErrNotFound) {
		c.o.Log.Warn("delete a push subscription failed", "client", b.ClientID, "error", err)
	}
}

// sendToDevice sends a message to a device, by the providers of its service.
func (c *Channel) sendToDevice(ctx, calls context.Context, devices *provider.Devices, o *notify.Outgoing,
	b *notify.PushSubscription, p *payload) tried {
	if ctx.Err() != nil {
		return tried{Result: outbound.Stopping}
	}
	r, gone := devices.Deliver(ctx, calls, o, b.TokenOf, provider.Note{Token: b.Token, Title: p.Title, Text: p.Body,
		URL: p.URL, Icon: p.Icon, Topic: p.Tag})
	if gone {
		r.Reason += " (the device is no longer registered: it was removed)"
		c.remove(ctx, b)
	}
	return tried{Result: r}
}

// notUsable means that a message cannot be sent, and never will be.
type notUsable struct{ why string }

func (e notUsable) Error() string { return e.why }

// post makes one call.
func (c *Channel) post(calls context.Context, o *notify.Outgoing, b *notify.PushSubscription, p *payload,
	limit int) (outbound.Answer, error) {
	plain, err := p.encode(limit)
	if err != nil {
		return outbound.Answer{}, notUsable{"the message is too long for push: " + err.Error()}
	}
	body, err := Encrypt(plain, b.P256dh, b.Auth)
	if err != nil {
		return outbound.Answer{}, notUsable{"the message cannot be encrypted: " + err.Error()}
	}
	authorization, err := c.o.Keys.Authorization(b.Endpoint)
	if err != nil {
		return outbound.Answer{}, notUsable{err.Error()}
	}
	now := c.o.Now()
	h := http.Header{}
	h.Set("Authorization", authorization)
	h.Set("Content-Encoding", "aes128gcm")
	h.Set("Content-Type", "application/octet-stream")
	h.Set("TTL", strconv.Itoa(int(life(o, now)/time.Second)))
	h.Set("Urgency", urgency(o))
	h.Set("Topic", p.topic)
	a, answer, err := c.o.Client.Do(calls, outbound.Request{Method: http.MethodPost, URL: b.Endpoint, Header: h,
		Body: body, At: now})
	a.Text = shown(string(answer), b.Endpoint)
	return a, err
}

// shown returns the beginning of an answer without the endpoint, which is a secret.
func shown(answer, endpoint string) string {
	const most = 200
	if u, err := url.Parse(endpoint); err == nil && len(u.Path) > 1 {
		answer = strings.ReplaceAll(answer, u.Path, "…")
	}
	return strings.ToValidUTF8(template.OneLine(answer[:min(len(answer), most)]), "")
}

// life is how long the push service keeps a message for a browser that is not running.
func life(o *notify.Outgoing, now time.Time) time.Duration {
	if o.ExpiresAt.IsZero() {
		return usualLife
	}
	return min(max(o.ExpiresAt.Sub(now), 0), longestLife)
}

// urgency tells the push service whether to wake up a device that saves power.
func urgency(o *notify.Outgoing) string {
	if o.Critical {
		return "high"
	}
	return "normal"
}
