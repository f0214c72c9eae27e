package pacing_test

import (
	"fmt"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/pacing"
	"ingot/internal/notify/mail/smtp"
)

// world is a Pacer with a clock.
type world struct {
	*testing.T
	*pacing.Pacer
	now     time.Time
	servers int
}

func start(t *testing.T, o pacing.Options) *world {
	t.Helper()
	w := &world{T: t, now: time.Unix(1_900_000_000, 0), servers: 1}
	o.Now = func() time.Time { return w.now }
	o.Servers = func() int { return w.servers }
	if o.Connections == 0 {
		o.Connections, o.Slow = 8, 8
	}
	w.Pacer = pacing.New(o)
	return w
}

func (w *world) ask(client, domain string) pacing.Admission {
	w.Helper()
	all, err := w.Admit(w.Context(), []pacing.Message{{Client: client, Domain: domain}})
	if err != nil {
		w.Fatal(err)
	}
	return all[0]
}

// answer ends a message that went to the mail server.
func (w *world) answer(client, domain string, a pacing.Admission, took time.Duration, busy bool) {
	w.Answered(client, domain, a, pacing.Answer{Took: took, Busy: busy, Why: "450 4.7.1 too many"})
}

// admitted asks until a message has no turn, and returns the admissions.
func (w *world) admitted(client, domain string) (all []pacing.Admission) {
	w.Helper()
	for range 10_000 {
		a := w.ask(client, domain)
		if a.Pool == pacing.Later {
			if a.RetryAfter < time.Second || a.Reason == "" {
				w.Fatalf("a message that has no turn gets %+v", a)
			}
			return all
		}
		all = append(all, a)
	}
	w.Fatal("there is no limit")
	return nil
}

// TestSlowDomain: a domain that is slow has a bounded number of messages in the channel, which clients share, and
// others are not affected. It is like others when it is quick again.
func TestSlowDomain(t *testing.T) {
	t.Parallel()
	w := start(t, pacing.Options{})
	first := w.ask("a", "slow.example")
	if first.Pool != pacing.Main {
		t.Fatalf("the first message gets %+v", first)
	}
	w.answer("a", "slow.example", first, 5*time.Second, false)
	flood := w.admitted("a", "slow.example")
	other := w.admitted("b", "slow.example")
	if len(flood) == 0 || len(flood) > 100 || len(other) == 0 {
		t.Fatalf("%d messages of one client and %d of another are in the channel", len(flood), len(other))
	}
	for _, a := range append(flood, other...) {
		if a.Pool != pacing.Side {
			t.Fatalf("a message to a slow domain gets %+v", a)
		}
	}
	if a := w.ask("a", "quick.example"); a.Pool != pacing.Main {
		t.Errorf("a message to another domain gets %+v", a)
	}
	for i := range 100 { // further slow domains
		name := fmt.Sprintf("slow%d.example", i)
		w.answer("a", name, w.ask("a", name), 5*time.Second, false)
		w.admitted("a", name)
	}
	if a := w.ask("b", "quick.example"); a.Pool != pacing.Main {
		t.Errorf("beside 100 slow domains another one gets %+v", a)
	}
	if slow, _ := w.Limited(); slow != 101 || len(w.Domains()) != notify.MaxMailDomains {
		t.Errorf("%d domains are slow, %d are listed", slow, len(w.Domains()))
	}
	for _, a := range flood {
		w.answer("a", "slow.example", a, 10*time.Millisecond, false)
	}
	if a := w.ask("a", "slow.example"); a.Pool != pacing.Main {
		t.Errorf("a domain that is quick again gets %+v", a)
	}
}

// TestLater: messages without a turn come back one after the other, and not too late.
func TestLater(t *testing.T) {
	t.Parallel()
	w := start(t, pacing.Options{Default: pacing.Limit{Rate: 2}})
	w.admitted("a", "x.example")
	last := time.Duration(0)
	for range 3000 {
		a := w.ask("a", "x.example")
		if a.RetryAfter < last || a.RetryAfter > 10*time.Minute {
			t.Fatalf("it comes back after %s, the one before after %s", a.RetryAfter, last)
		}
		last = a.RetryAfter
	}
	if last != 10*time.Minute {
		t.Errorf("the last comes back after %s", last)
	}
	if a := w.ask("b", "x.example"); a.Pool != pacing.Main {
		t.Errorf("the first message of another client gets %+v", a)
	}
}

// sent counts the messages of clients that are admitted in a time, when each asks all the time.
func (w *world) sent(d time.Duration, domain string, clients ...string) map[string]int {
	w.Helper()
	n := map[string]int{}
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(100 * time.Millisecond) {
		for _, c := range clients {
			if a := w.ask(c, domain); a.Pool != pacing.Later {
				n[c]++
				w.answer(c, domain, a, time.Millisecond, false)
			}
		}
	}
	return n
}

func near(n, want int) bool { return n >= want*8/10 && n <= want*12/10+2 }

// TestConfiguredRate: the rate of a domain is that of all servers, and of all clients together.
func TestConfiguredRate(t *testing.T) {
	t.Parallel()
	w := start(t, pacing.Options{Domains: map[string]pacing.Limit{"x.example": {Rate: 4}}})
	if n := w.sent(time.Minute, "x.example", "a")["a"]; !near(n, 240) {
		t.Errorf("a minute had %d messages", n)
	}
	if n := w.sent(time.Minute, "x.example", "a", "b"); !near(n["a"], 120) || !near(n["b"], 120) {
		t.Errorf("a minute had %v", n)
	}
	if n := w.sent(time.Minute, "y.example", "a")["a"]; n != 600 {
		t.Errorf("a domain without limit had %d messages", n)
	}
	w.servers = 2
	w.now = w.now.Add(time.Hour)
	if n := w.sent(time.Minute, "x.example", "a")["a"]; !near(n, 120) {
		t.Errorf("with two servers it were %d", n)
	}
}

// TestBusy: answers that ask for less lower the rate, and it recovers. A few among many do not.
func TestBusy(t *testing.T) {
	t.Parallel()
	w := start(t, pacing.Options{})
	for i := range 1000 {
		a := w.ask("a", "x.example")
		w.answer("a", "x.example", a, time.Millisecond, i%50 == 49)
	}
	if _, lowered := w.Limited(); lowered != 0 {
		t.Fatal("one answer of 50 lowered the rate")
	}
	w.now = w.now.Add(time.Minute)
	for range 300 { // 300 in 30 s
		a := w.ask("a", "x.example")
		w.now = w.now.Add(100 * time.Millisecond)
		w.answer("a", "x.example", a, time.Millisecond, true)
	}
	got := w.Domains()
	if len(got) != 1 || !got[0].Lowered || got[0].Rate > 10 || got[0].Reason != "450 4.7.1 too many" ||
		got[0].Connections != 1 {
		t.Fatalf("the domains are %+v", got)
	}
	if n := w.sent(10*time.Second, "x.example", "a")["a"]; n > 60 {
		t.Errorf("%d messages in 10 s", n)
	}
	if n := w.Counts(); n.Busy != 320 || n.Rate == 0 {
		t.Errorf("counts are %+v", n)
	}
	w.now = w.now.Add(10 * time.Minute)
	if n := w.sent(time.Second, "x.example", "a")["a"]; n != 10 {
		t.Errorf("after ten minutes %d of 10 messages were sent", n)
	}
	if _, lowered := w.Limited(); lowered != 0 {
		t.Error("the rate has not recovered")
	}
	for range 200 { // it refuses everything, for a long time
		a := w.ask("a", "dead.example")
		w.answer("a", "dead.example", a, time.Millisecond, true)
		w.now = w.now.Add(time.Second)
	}
	if got := w.Domains(); len(got) != 1 || got[0].Rate < 1 || got[0].Rate > 2 {
		t.Errorf("a domain that refuses everything is %+v", got)
	}
}

// TestGate: permits grow with answers, and are bounded by what an operator configured. Slow domains leave some
// for others.
func TestGate(t *testing.T) {
	t.Parallel()
	w := start(t, pacing.Options{Domains: map[string]pacing.Limit{"few.example": {Connections: 3}}})
	main, side := w.Gate(pacing.Main), w.Gate(pacing.Side)
	permits := func(g smtp.Gate, domain string) (n int) {
		for g.Enter(domain) == smtp.Enter {
			n++
		}
		return n
	}
	if n := permits(main, "x.example"); n != 2 {
		t.Errorf("an unknown domain has %d permits", n)
	}
	for range 2 {
		w.answer("a", "x.example", pacing.Admission{Pool: pacing.Main}, time.Millisecond, false)
		w.answer("a", "few.example", pacing.Admission{Pool: pacing.Main}, time.Millisecond, false)
	}
	if n := permits(main, "x.example"); n != 2 {
		t.Errorf("after two answers it has %d more permits", n)
	}
	if main.Follow("x.example") != smtp.Enter {
		t.Error("a message cannot follow another one")
	}
	if n := permits(main, "few.example"); n != 3 {
		t.Errorf("a domain with a limit of 3 has %d permits", n)
	}
	changed := main.Changes()
	main.Leave("few.example")
	<-changed
	if n := permits(main, "few.example"); n != 1 {
		t.Errorf("after one left there are %d permits", n)
	}

	changed = main.Changes()
	main.Late("x.example")
	<-changed
	if main.Enter("x.example") != smtp.Away || main.Follow("x.example") != smtp.Away {
		t.Error("a slow domain keeps the connections for all")
	}
	one := permits(side, "x.example")
	if other := permits(side, "y.example"); one < 4 || one > 7 || other == 0 {
		t.Errorf("of 8 connections for slow domains one takes %d, and another %d", one, other)
	}
	side.Leave("y.example")
	if side.Follow("x.example") != smtp.Enter {
		t.Error("a message to a slow domain cannot follow")
	}
}

// TestBounds: neither invented domains nor clients fill the memory.
func TestBounds(t *testing.T) {
	t.Parallel()
	w := start(t, pacing.Options{Default: pacing.Limit{Rate: 1}})
	for i := range 30_000 {
		w.ask("a", fmt.Sprintf("d%d.example", i))
		w.ask(fmt.Sprint("c", i), "x.example")
		w.now = w.now.Add(10 * time.Millisecond)
	}
	domains, shares := pacing.Sizes(w.Pacer, "x.example")
	if domains > 10_000 || shares > 20_000 {
		t.Errorf("%d domains and %d clients are remembered", domains, shares)
	}
}
