package provider

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/outbound"
)

// trial is an attempt at a message, which tries one provider after the other.
type trial struct {
	failed  []string // what those said that were called
	resting []string // why others were not
	// wait is the shortest time after which one that is limited, or asked to be left alone, may be called; free reports
	// that all are of that kind.
	wait    time.Duration
	limited bool
	broken  bool
	gone    bool // a provider said that the device no longer exists
}

// job is a message to deliver, to a device if note is not nil.
type job struct {
	*notify.Outgoing
	note   *Note
	access string // the provider's access token
}

// request returns the call of a provider.
func (j job) request(c *Compiled, at time.Time) (outbound.Request, error) {
	if j.note != nil {
		return c.PushRequest(j.Outgoing, j.note, j.access, at)
	}
	return c.Request(j.Outgoing, j.access, at)
}

// private returns what an answer may repeat of the message, and no one else may see.
func (j job) private() []string {
	if j.note != nil {
		return []string{j.access, j.note.Token}
	}
	return []string{j.access, strings.TrimPrefix(j.To, "+")}
}

// attempt tries the providers in the order of a draw by weight. A temporary failure leads to the next at once.
func (c *Channel) attempt(ctx, calls context.Context, routes []route, o job, t *trial) notify.Result {
	for _, r := range failover.Order(routes, func(r route) int { return r.weight }, c.o.Random) {
		result, called := c.try(ctx, calls, r, o, t)
		switch {
		case ctx.Err() != nil && !called:
			return t.stopped()
		case !called:
			continue
		case result.Verdict == notify.Accepted:
			result.Via = "accepted by " + r.name
			if len(t.failed) > 0 {
				result.Via += ", after " + strings.Join(t.failed, "; ")
			}
			return result
		}
		t.failed = append(t.failed, r.name+": "+result.Reason)
		if result.Verdict == notify.Permanent {
			result.Reason = strings.Join(t.failed, "; ")
			return result
		}
	}
	return t.result()
}

// stopped is the result when the server stops. If a provider has failed, it was an attempt.
func (t *trial) stopped() notify.Result {
	if len(t.failed) == 0 {
		return outbound.Stopping
	}
	return notify.Result{Verdict: notify.Temporary, Reason: strings.Join(t.failed, "; ")}
}

// result is that of a message that no provider accepted. It is no attempt if none was called because all are limited.
func (t *trial) result() notify.Result {
	r := notify.Result{Verdict: notify.Temporary, Reason: strings.Join(append(t.failed, t.resting...), "; ")}
	if len(t.failed) == 0 && t.limited && !t.broken {
		r.Untried, r.RetryAfter = true, t.wait
	}
	return r
}

// rests records that a provider is not called.
func (t *trial) rests(name, why string, wait time.Duration, limited bool) {
	t.resting = append(t.resting, name+": "+why)
	if !limited {
		t.broken = true
		return
	}
	if !t.limited || wait < t.wait {
		t.wait = wait
	}
	t.limited = true
}

// soon is how long a message waits for its turn at a provider that is limited.
const soon = time.Second

// try calls a provider if it may be called now.
func (c *Channel) try(ctx, calls context.Context, r route, o job, t *trial) (_ notify.Result,
	called bool) {
	select {
	case r.line.slots <- struct{}{}:
	case <-ctx.Done():
		return notify.Result{}, false
	}
	defer func() { <-r.line.slots }()
	if ctx.Err() != nil {
		return notify.Result{}, false
	}
	call, refusal := r.line.breaker.Try(c.o.Now())
	if refusal != nil {
		t.rests(r.name, "left alone after "+refusal.Why, refusal.For, refusal.Asked || refusal.Trying)
		return notify.Result{}, false
	}
	finished := false
	defer func() {
		if !finished { // also after a panic
			call.Dropped()
		}
	}()
	if wait := r.line.reserve(c.o.Now(), c.o.Servers()); wait > soon {
		t.rests(r.name, "its rate is limited", wait, true)
		return notify.Result{}, false
	} else if wait > 0 && !background.Sleep(ctx, wait) {
		return notify.Result{}, false
	}
	var err error
	if o.access, err = r.line.access.get(calls, r.Compiled, c.o.Client, c.o.Now, o.private()...); err != nil {
		finished = true
		return c.concluded(ctx, r, o, call, &answer{}, t, err), true
	}
	request, err := o.request(r.Compiled, c.o.Now())
	if err != nil {
		return notify.Result{Verdict: notify.Permanent, Reason: "the request cannot be made: " + err.Error()}, true
	}
	said, body, err := c.o.Client.Do(calls, request)
	finished = true
	return c.concluded(ctx, r, o, call, &answer{Answer: said, body: body}, t, err), true
}

// tokensFault are the statuses with which services also answer to a token that is made up or another app's. Users
// register tokens, so these answers do not pause the provider for other users. 401 and 429 do: they are
// taken to be about the account, also where a service limits a single device.
var tokensFault = []int{http.StatusForbidden, http.StatusNotFound}

// concluded tells the breaker how a call ended, and returns what it means for the message.
func (c *Channel) concluded(ctx context.Context, r route, o job, call failover.Call, a *answer, t *trial,
	err error) notify.Result {
	now := c.o.Now()
	if err != nil {
		if ctx.Err() != nil {
			call.Dropped()
			return notify.Result{Verdict: notify.Temporary, Reason: "the call was interrupted: the server was stopping"}
		}
		// The error may quote an answer that is not HTTP.
		why := r.hiding(o.private()...).line(err.Error(), maxWhy)
		if !errors.Is(err, outbound.ErrUnsent) {
			why = "no answer: " + why
		}
		c.o.Log.Warn("call of a provider failed", "channel", c.id, "client", o.ClientID, "provider", r.name, "message", o.ID,
			"error", why)
		call.Failed(now, why)
		return notify.Result{Verdict: notify.Temporary, Reason: why}
	}
	if a.Status == http.StatusUnauthorized {
		r.line.access.refused(o.access)
	}
	result := r.judge(a, o.private()...)
	// A message that follows may be shown why this one failed, so nothing of it is in there.
	status := a.Answer.String()
	if o.note != nil && r.lost(a) {
		t.gone = true
	}
	switch {
	case result.Verdict != notify.Temporary, o.note != nil && slices.Contains(tokensFault, a.Status):
		call.Succeeded()
	case (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable) && a.RetryAfter > 0:
		call.Asked(now, a.RetryAfter, status)
	default:
		call.Failed(now, status)
	}
	return result
}
