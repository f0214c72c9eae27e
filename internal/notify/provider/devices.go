package provider

import (
	"context"
	"fmt"
	"sync"

	"ingot/internal/notify"
)

// Devices delivers messages to devices of a client's users, by the client's providers. These are read once, when the
// first message needs them. Close has to be called at the end.
type Devices struct {
	c      *Channel
	client string

	once   sync.Once
	routes []route
	why    string
	err    error
}

// Devices returns how devices of a client's users are reached.
func (c *Channel) Devices(client string) *Devices { return &Devices{c: c, client: client} }

// Deliver sends a message to a device of a service, as Channel does with one to a phone. gone reports that the device
// no longer exists.
func (d *Devices) Deliver(ctx, calls context.Context, o *notify.Outgoing, service string,
	n Note) (r notify.Result, gone bool) {
	d.once.Do(func() { d.routes, d.why, d.err = d.c.routes(ctx, d.client) })
	if d.err != nil {
		if ctx.Err() == nil {
			d.c.o.Log.Error("read providers failed, messages postponed", "channel", d.c.id, "client", d.client,
				"error", d.err)
		}
		return notify.Result{Verdict: notify.Temporary, Reason: "the providers could not be read", Untried: true}, false
	}
	var serving []route
	for _, r := range d.routes {
		if r.service == service {
			serving = append(serving, r)
		}
	}
	if len(serving) == 0 {
		why := fmt.Sprintf("no provider delivers to devices of the service %q: declare one with PUT /providers/NAME", service)
		if len(d.routes) == 0 {
			why = d.why
		}
		return notify.Result{Verdict: notify.Permanent, Reason: why}, false
	}
	t := &trial{}
	r = d.c.attempt(ctx, calls, serving, job{Outgoing: o, note: &n}, t)
	return r, t.gone && r.Verdict == notify.Permanent
}

// Close releases the providers.
func (d *Devices) Close() {
	d.once.Do(func() {})
	leaveAll(d.routes)
}
