package mail_test

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/notify"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/mail/smtp"
)

// TestSlowDomainDelaysNoOther: messages to domains whose server does not answer take neither the connections nor the
// time of others, also of the same batch.
func TestSlowDomainDelaysNoOther(t *testing.T) {
	t.Parallel()
	for _, stage := range []mailtest.Stage{mailtest.Rcpt, mailtest.Dot} {
		t.Run(fmt.Sprint("stage ", stage), func(t *testing.T) {
			t.Parallel()
			answer := make(chan struct{})
			sink := mailtest.New(t, mailtest.Options{Fault: func(s mailtest.Step) mailtest.Action {
				if s.Stage == stage && strings.Contains(s.To, "@slow") {
					<-answer
				}
				return mailtest.Action{}
			}})
			registry := prometheus.NewRegistry()
			c := channel(t, sink, "", "connections=2&slow-connections=4", func(o *mail.Options) {
				o.Registry = registry
				o.Tune = func(c *smtp.Config) { c.Late = 20 * time.Millisecond }
			})
			batch := messages("m", 60)
			quick := 0
			for i := range batch {
				if batch[i].To = fmt.Sprintf("u%d@quick%d.example", i, i%7); i%5 == 0 {
					batch[i].To = fmt.Sprintf("u%d@slow%d.example", i, i%2)
				} else {
					quick++
				}
			}
			results := make([]notify.Result, len(batch))
			var left sync.WaitGroup
			left.Add(quick)
			var all sync.WaitGroup
			all.Go(func() {
				c.Deliver(t.Context(), batch, func(i int, r notify.Result) {
					results[i] = r
					if strings.Contains(batch[i].To, "@quick") {
						left.Done()
					}
				})
			})
			left.Wait() // while no message to the slow domains has an answer
			for _, r := range deliver(t.Context(), c, messages("later", 10)) {
				if r.Verdict != notify.Accepted {
					t.Errorf("a later message: %+v", r)
				}
			}
			state := c.State()
			if len(state.Domains) != 2 || !state.Domains[0].Slow || state.Domains[0].Domain != "slow0.example" {
				t.Errorf("domains are %+v, want two slow ones", state.Domains)
			}
			if families, err := registry.Gather(); err != nil || len(families) != 5 {
				t.Errorf("%d metrics, %v", len(families), err)
			}
			close(answer)
			all.Wait()
			for i, r := range results {
				if r.Verdict != notify.Accepted && (!r.Untried || r.RetryAfter < time.Second) {
					t.Errorf("%s: %+v", batch[i].To, r)
				}
			}
			if v := sink.Violations(); len(v) > 0 {
				t.Errorf("protocol violations are %v, want none", v)
			}
		})
	}
}

// routed starts a channel with several mail servers.
func routed(t *testing.T, routes ...mail.Route) *mail.Channel {
	t.Helper()
	c, err := mail.NewChannel(mail.Options{Plan: mail.Plan{Routes: routes},
		Identity: mail.Identity{From: "no-reply@ingot.example"},
		Tune: func(c *smtp.Config) {
			c.Grace, c.Failures, c.Pause = 100*time.Millisecond, 2, time.Hour
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

// closedPort returns an address at which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestRoutes: mail servers share the messages by weight, and those with domains get these.
func TestRoutes(t *testing.T) {
	t.Parallel()
	a, b, own := mailtest.New(t, mailtest.Options{}), mailtest.New(t, mailtest.Options{}), mailtest.New(t,
		mailtest.Options{})
	reserve := mailtest.New(t, mailtest.Options{})
	c := routed(t, mail.Route{Name: "a", URL: a.URL("", ""), Weight: 3},
		mail.Route{Name: "b", URL: b.URL("", ""), Weight: 1},
		mail.Route{Name: "reserve", URL: reserve.URL("", "")},
		mail.Route{Name: "own", URL: own.URL("", ""), Weight: 1, Domains: []string{"own.example"}})
	batch := messages("m", 400)
	for i := range 50 {
		batch[i].To = "ann@own.example"
	}
	for i, r := range deliver(t.Context(), c, batch) {
		if r.Verdict != notify.Accepted || !strings.HasPrefix(r.Via, "accepted by ") ||
			(i < 50) != (r.Via == "accepted by own") {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	if a.Accepted() < 200 || b.Accepted() < 40 || own.Accepted() != 50 || reserve.Accepted() != 0 {
		t.Errorf("a got %d, b %d, own %d, reserve %d", a.Accepted(), b.Accepted(), own.Accepted(), reserve.Accepted())
	}
}

// TestRouteFails: what a mail server has certainly not got goes to the next one at once; what it may have got does not.
func TestRouteFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault mailtest.Fault
		users map[string]string
		next  bool // the next one gets the messages
		open  bool // the first is left alone then
	}{
		"greeting": {fault: mailtest.At(mailtest.Connect, mailtest.Action{Reply: "421 4.3.2 closing"}), next: true,
			open: true},
		"hello":              {fault: mailtest.At(mailtest.Hello, mailtest.Action{Drop: true}), next: true, open: true},
		"login wanted":       {users: map[string]string{"ann": "x"}, next: true},
		"lost before":        {fault: mailtest.At(mailtest.Rcpt, mailtest.Action{Drop: true}), next: true, open: true},
		"lost after content": {fault: mailtest.At(mailtest.Dot, mailtest.Action{Drop: true})},
		"recipient refused":  {fault: mailtest.At(mailtest.Rcpt, mailtest.Action{Reply: "550 5.1.1 unknown"})},
		"later":              {fault: mailtest.At(mailtest.Rcpt, mailtest.Action{Reply: "450 4.2.0 later"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := mailtest.New(t, mailtest.Options{Fault: test.fault, Users: test.users})
			second := mailtest.New(t, mailtest.Options{})
			c := routed(t, mail.Route{Name: "first", URL: first.URL("", ""), Weight: 1},
				mail.Route{Name: "second", URL: second.URL("", "")})
			for i, r := range deliver(t.Context(), c, messages("m", 20)) {
				if accepted := r.Verdict == notify.Accepted; accepted != test.next {
					// What follows a connection that was lost may not have been begun.
					if accepted && strings.Contains(r.Via, "several times in a row") {
						continue
					}
					t.Errorf("message %d: %+v", i, r)
				}
				if test.next && (!strings.HasPrefix(r.Via, "accepted by second, after first: ")) {
					t.Errorf("message %d went %q", i, r.Via)
				}
			}
			state := c.State().Routes
			if test.open && (state[0].State != "open" || state[0].Reason == "" || state[0].Until == nil) ||
				state[1].State != "closed" || state[1].Delivered != int64(second.Accepted()) {
				t.Errorf("routes are %+v", state)
			}
		})
	}
	dead := routed(t, mail.Route{Name: "a", URL: "smtp://" + closedPort(t), Weight: 1},
		mail.Route{Name: "b", URL: "smtp://" + closedPort(t), Weight: 1})
	for _, r := range deliver(t.Context(), dead, messages("m", 5)) {
		if r.Verdict != notify.Temporary || !strings.Contains(r.Reason, "a: ") || !strings.Contains(r.Reason, "b: ") {
			t.Errorf("without a mail server: %+v", r)
		}
	}
}

// TestParsePlan: what is wrong with a plan is said, and passwords are not.
func TestParsePlan(t *testing.T) {
	t.Parallel()
	good := `{"routes": [{"name": "main", "url": "smtps://u:s3cret@mail.example", "weight": 3},
		{"name": "own", "url": "smtp://b.example", "domains": ["Exämple.org"]}],
		"domains": {"*": {"connections": 4}, "Slow.example": {"rate": 0.5}},
		"warm_up": {"first": 50, "growth": 1.5, "days": 30}}`
	p, err := mail.ParsePlan([]byte(good))
	if err != nil || p.Default.Connections != 4 || p.Domains["slow.example"].Rate != 0.5 || p.WarmUp.Quota(1) != 75 ||
		p.WarmUp.Quota(30) != -1 || p.Routes[1].Domains[0] != "xn--exmple-cua.org" {
		t.Errorf("the plan is %+v, %v", p, err)
	}
	if p, err := mail.ParsePlan([]byte(`{}`)); err != nil || p.WarmUp.Quota(0) >= 0 {
		t.Errorf("an empty plan is %+v, %v", p, err)
	}
	for bad, want := range map[string]string{
		``:                                "no end",
		`{"routes": `:                     "no end",
		`{} {}`:                           "more than one",
		`{"colour": "x"}`:                 "colour",
		`[1]`:                             "byte 1",
		strings.Repeat(" ", 1<<20) + `{}`: "more than",
		`{"routes": [{"name": "M", "url": "smtp://h"}]}`:                                   "number 1",
		`{"routes": [{"name": "m", "url": "smtp://u:s3cret@h:%zz"}]}`:                      "m: invalid mail server",
		`{"routes": [{"name": "m", "url": "http://u:s3cret@h"}]}`:                          "http://",
		`{"routes": [{"name": "m", "url": 5, "weight": "s3cret"}]}`:                        "url",
		`{"routes": [{"name": "m", "url": "smtp://h", "weight": "s3cret"}]}`:               "weight",
		`{"routes": [{"name": "m", "url": "smtp://h"}, {"name": "m", "url": "smtp://h"}]}`: "more than once",
		`{"routes": [{"name": "m", "url": "smtp://h", "weight": -1}]}`:                     "weight",
		`{"routes": [{"name": "m", "url": "smtp://h", "weight": 1001}]}`:                   "weight",
		`{"routes": [{"name": "m", "url": "smtp://h", "domains": ["a b"]}]}`:               "not a domain",
		`{"routes": [{"name": "m", "url": "smtp://h", "domains": ["a.example"]}]}`:         "without domains",
		`{"routes": [` + strings.Repeat(`{},`, 16) + `{}]}`:                                "17 entries",
		`{"domains": {"x@y": {"rate": 1}}}`:                                                "not a domain",
		`{"domains": {"x\r\ny.example": {"rate": 1}}}`:                                     "not a domain",
		`{"domains": {"a.example": {"rate": -1}}}`:                                         "rate",
		`{"domains": {"a.example": {"rate": 1e-9}}}`:                                       "rate",
		`{"domains": {"a.example": {"connections": 1001}}}`:                                "connections",
		`{"domains": {"a.example": {"per_minute": 1}}}`:                                    "per_minute",
		`{"warm_up": {"first": 0, "growth": 2, "days": 3}}`:                                "first",
		`{"warm_up": {"first": 5, "growth": 0.5, "days": 3}}`:                              "growth",
		`{"warm_up": {"first": 5, "growth": 2, "days": 0}}`:                                "days",
		`{"warm_up": {"first": 5, "growth": 1e300, "days": 5}}`:                            "growth",
	} {
		if _, err := mail.ParsePlan([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.80s: error is %v, want %q", bad, err, want)
		}
	}
}
