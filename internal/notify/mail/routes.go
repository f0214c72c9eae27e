package mail

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/mail/address"
	"ingot/internal/notify/mail/pacing"
	"ingot/internal/notify/mail/smtp"
)

// route is a mail server, with connections for all domains and others for slow ones. Each has its own breaker: what
// slow domains cause says nothing about the mail server.
type route struct {
	Route
	server     string
	main, side *smtp.Client
	delivered  atomic.Int64
}

func (r *route) clients() []*smtp.Client { return []*smtp.Client{r.main, r.side} }

// client returns the connections of a pool.
func (r *route) client(l pacing.Pool) *smtp.Client {
	if l == pacing.Side {
		return r.side
	}
	return r.main
}

// open builds the routes and the pacer that they share.
func (c *Channel) open(o Options) error {
	declared := o.Plan.Routes
	if len(declared) == 0 {
		declared = []Route{{Name: "mail", URL: o.URL, Weight: 1}}
	}
	configs := make([]smtp.Config, len(declared))
	limits := pacing.Options{Default: o.Plan.Default, Domains: o.Plan.Domains, WarmUp: o.Plan.WarmUp, Quotas: o.Quotas,
		Servers: o.Servers, Log: o.Log}
	for i, r := range declared {
		var err error
		if configs[i], err = smtp.ParseURL(r.URL); err != nil {
			return err
		}
		configs[i].TLS, configs[i].Late = o.TLS, pacing.SlowAfter
		if o.Tune != nil {
			o.Tune(&configs[i])
		}
		limits.Connections += configs[i].Connections
		limits.Slow += configs[i].SlowConnections
		if limits.Default.Connections == 0 {
			limits.Default.Connections = configs[i].DomainConnections
		}
	}
	c.pacer = pacing.New(limits)
	for i, config := range configs {
		config.Spare = smtp.NewSlots(config.SlowConnections)
		config.Gate = c.pacer.Gate(pacing.Main)
		side := config
		side.Connections, side.Slots, side.Late = config.SlowConnections, config.Spare, 0
		side.Gate = c.pacer.Gate(pacing.Side)
		c.routes = append(c.routes, &route{Route: declared[i], server: config.String(),
			main: smtp.New(config, o.Log), side: smtp.New(side, o.Log)})
	}
	return nil
}

// State returns what this server knows of the mail servers and receiving domains.
func (c *Channel) State() notify.MailState {
	s := notify.MailState{Domains: c.pacer.Domains(), WarmUp: c.plan.WarmUp.State(), Postponed: c.pacer.Counts()}
	for _, r := range c.routes {
		h := r.main.Health()
		of := notify.MailRoute{Name: r.Name, Server: r.server, Weight: r.Weight, Domains: r.Domains, State: string(h.State),
			Failures: h.Failures, Reason: h.Why, Delivered: r.delivered.Load()}
		if !h.Until.IsZero() {
			until := h.Until.UTC()
			of.Until = &until
		}
		s.Routes = append(s.Routes, of)
	}
	return s
}

// delivery is one call of Deliver.
type delivery struct {
	*source
	done       func(int, notify.Result)
	admissions []pacing.Admission
	// orders are the routes of each message that have not been tried, and failed what the others said; nil if there is
	// only one route.
	orders [][]*route
	failed []string
}

// Deliver implements notify.Channel.
func (c *Channel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	d := &delivery{source: &source{Channel: c, batch: batch, domains: make([]string, len(batch))}, done: done}
	asked := make([]pacing.Message, len(batch))
	for i := range batch {
		d.domains[i] = address.Domain(batch[i].To)
		asked[i] = pacing.Message{Client: batch[i].ClientID, Domain: d.domains[i]}
	}
	var err error
	defer c.pacer.Return(ctx, asked)
	if d.admissions, err = c.pacer.Admit(ctx, asked); err != nil {
		for i := range batch {
			done(i, notify.Result{Verdict: notify.Temporary, Untried: true, Reason: "the warm-up plan could not be read"})
		}
		return
	}
	if len(c.routes) > 1 {
		d.orders, d.failed = make([][]*route, len(batch)), make([]string, len(batch))
	}
	var pools [pacing.Side + 1][]int
	for i := range batch {
		a := d.admissions[i]
		if a.Pool == pacing.Later {
			done(i, postponed(a))
			continue
		}
		pools[a.Pool] = append(pools[a.Pool], i)
		if d.orders != nil {
			d.orders[i] = c.order(d.domains[i])
		}
	}
	var both background.WaitGroup
	for _, pool := range []pacing.Pool{pacing.Main, pacing.Side} {
		if len(pools[pool]) > 0 {
			both.Go("delivery of mail", func() { d.pool(ctx, pool, pools[pool]) })
		}
	}
	both.Wait()
}

func postponed(a pacing.Admission) notify.Result {
	return notify.Result{Verdict: notify.Temporary, Untried: true, Reason: a.Reason,
		RetryAfter: a.RetryAfter}
}

// order returns the routes of a message in the order in which to try them: those for its domain, or else those for all.
func (c *Channel) order(domain string) []*route {
	var own, all []*route
	for _, r := range c.routes {
		switch {
		case len(r.Domains) == 0:
			all = append(all, r)
		case slices.Contains(r.Domains, domain):
			own = append(own, r)
		}
	}
	weight := func(r *route) int { return r.Weight }
	return append(failover.Order(own, weight, rand.Float64), failover.Order(all, weight, rand.Float64)...)
}

// pool sends messages over their first routes, what these did not get over the next ones, and so on.
func (d *delivery) pool(ctx context.Context, pool pacing.Pool, list []int) {
	for len(list) > 0 {
		groups := map[*route][]int{}
		if d.orders == nil {
			groups[d.routes[0]] = list
		}
		for _, i := range list {
			if d.orders != nil {
				groups[d.orders[i][0]] = append(groups[d.orders[i][0]], i)
				d.orders[i] = d.orders[i][1:]
			}
		}
		var mu sync.Mutex
		var all background.WaitGroup
		list = nil
		for r, group := range groups {
			all.Go("delivery by a mail server", func() {
				s := *d.source
				s.list = group
				r.client(pool).Deliver(ctx, &s, func(n int, result smtp.Result) {
					i := group[n]
					result.Reason = d.composer.WithoutTag(d.batch[i].ID, result.Reason)
					if result.Unsent && d.orders != nil && len(d.orders[i]) > 0 && ctx.Err() == nil {
						mu.Lock()
						defer mu.Unlock()
						d.fail(i, r, result)
						list = append(list, i)
						return
					}
					d.finish(i, r, result)
				})
			})
		}
		all.Wait()
	}
}

// fail records what a route said that did not get a message.
func (d *delivery) fail(i int, r *route, result smtp.Result) {
	if d.orders != nil && result.Verdict != notify.Accepted {
		d.failed[i] = strings.TrimPrefix(d.failed[i]+"; "+r.Name+": "+result.Reason, "; ")
	}
}

// finish passes the result of a message on, after the pacer has learned from it.
func (d *delivery) finish(i int, r *route, result smtp.Result) {
	client, domain := d.batch[i].ClientID, d.domains[i]
	if result.Away {
		d.done(i, postponed(d.pacer.Away(pacing.Message{Client: client, Domain: domain}, d.admissions[i])))
		return
	}
	d.pacer.Answered(client, domain, d.admissions[i], pacing.Answer{Took: result.Took, Busy: result.Busy,
		Unsent: result.Unsent, Why: result.Reason})
	if result.Verdict == notify.Accepted {
		r.delivered.Add(1)
	}
	if d.orders != nil {
		if result.Verdict == notify.Accepted {
			result.Via = "accepted by " + r.Name
			if d.failed[i] != "" {
				result.Via += ", after " + d.failed[i]
			}
		} else {
			d.fail(i, r, result)
			result.Reason = d.failed[i]
		}
	}
	d.done(i, result.Result)
}
