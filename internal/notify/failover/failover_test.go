package failover_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/notify/failover"
)

// TestBreaker goes through all states.
func TestBreaker(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	b := failover.NewBreaker(failover.Options{Failures: 3, First: 5 * time.Second, Longest: 12 * time.Second})
	permitted := func() failover.Call {
		t.Helper()
		c, refusal := b.Try(now)
		if refusal != nil {
			t.Fatalf("refused: %+v", refusal)
		}
		return c
	}
	refused := func(pause time.Duration, asked bool) {
		t.Helper()
		if _, refusal := b.Try(now); refusal == nil || refusal.For != pause || refusal.Asked != asked {
			t.Fatalf("got %+v, want a refusal for %s", refusal, pause)
		}
	}
	state := func(want failover.State) {
		t.Helper()
		if got := b.Health(now); got.State != want {
			t.Fatalf("the state is %+v, want %s", got, want)
		}
	}
	state(failover.Closed)
	permitted().Failed(now, "no")
	permitted().Failed(now, "no")
	permitted().Succeeded()
	late := permitted()
	for range 3 {
		permitted().Failed(now, "timeout")
	}
	state(failover.Open)
	if h := b.Health(now); h.Failures != 3 || h.Why != "timeout" || !h.Until.Equal(now.Add(5*time.Second)) {
		t.Errorf("the health is %+v", h)
	}
	refused(5*time.Second, false)
	late.Failed(now, "late")
	refused(5*time.Second, false) // not longer

	for _, pause := range []time.Duration{10 * time.Second, 12 * time.Second, 12 * time.Second} {
		now = now.Add(12 * time.Second)
		state(failover.HalfOpen)
		probe := permitted()
		refused(time.Second, false) // one at a time
		probe.Failed(now, "again")
		state(failover.Open)
		refused(pause, false)
	}
	now = now.Add(12 * time.Second)
	permitted().Dropped()
	probe := permitted()
	probe.Succeeded()
	state(failover.Closed)

	first, second := permitted(), permitted()
	first.Asked(now, 48*time.Hour, "429")
	second.Succeeded()
	refused(failover.AskedMost, true)
	now = now.Add(time.Hour)
	permitted().Succeeded()
	state(failover.Closed)
	permitted().Asked(now, -time.Hour, "429")
	permitted().Succeeded()
}

// TestBreakerTogether has many callers: a half-open breaker permits one call at a time.
func TestBreakerTogether(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	b := failover.NewBreaker(failover.Options{})
	for range 5 {
		c, _ := b.Try(now)
		c.Failed(now, "no")
	}
	now = now.Add(5 * time.Second)
	var all sync.WaitGroup
	permitted := make(chan failover.Call, 50)
	for range 50 {
		all.Go(func() {
			if c, refusal := b.Try(now); refusal == nil {
				permitted <- c
			}
		})
	}
	all.Wait()
	if len(permitted) != 1 {
		t.Errorf("%d calls were permitted, want 1", len(permitted))
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	type route struct {
		name   string
		weight int
	}
	routes := []route{{"reserve", 0}, {"a", 6}, {"last", 0}, {"b", 3}, {"c", 1}}
	random := rand.New(rand.NewPCG(1, 2))
	first := map[string]int{}
	const rounds = 20_000
	for range rounds {
		got := failover.Order(routes, func(r route) int { return r.weight }, random.Float64)
		names := ""
		for _, r := range got {
			names += r.name + " "
		}
		if len(got) != len(routes) || !strings.HasSuffix(names, " reserve last ") {
			t.Fatalf("the order is %s", names)
		}
		first[got[0].name]++
	}
	for name, share := range map[string]float64{"a": .6, "b": .3, "c": .1} {
		if got := float64(first[name]) / rounds; math.Abs(got-share) > .02 {
			t.Errorf("%s was first in %.3f of the rounds, want %.1f", name, got, share)
		}
	}
	if got := failover.Order(nil, func(route) int { return 1 }, random.Float64); len(got) != 0 {
		t.Errorf("of nothing came %v", got)
	}
}
