package storetest

import (
	"os"
	"time"

	"pgregory.net/rapid"

	"ingot/internal/notify"
)

// modelled is what the suite knows of a message.
type modelled struct {
	status   notify.Status
	due      time.Time
	owner    string // of the lease
	until    time.Time
	attempts int
	size     int // of its send
	canceled bool
}

func (m *modelled) free(now time.Time) bool { return m.owner == "" || !m.until.After(now) }

// model is a queue in memory. The store must behave as it does.
type model struct {
	*kit
	store    notify.Store
	messages map[int64]*modelled
	order    []int64
}

// modelRounds is how often it begins anew; with INGOT_SOAK=1 as often as rapid
// wants.
const modelRounds = 5

// testQueueModel does random things to a store and to the model.
func testQueueModel(k *kit) {
	s := k.store()
	rounds := modelRounds
	if os.Getenv("INGOT_SOAK") == "1" {
		rounds = 1000
	}
	rapid.Check(k.T, func(t *rapid.T) {
		if rounds--; rounds < 0 {
			return // each step is a commit, and 100 rounds of them take long
		}
		m := &model{kit: k, store: s, messages: map[int64]*modelled{}}
		defer m.clean()
		owner := rapid.SampledFrom([]string{"w1", "w2", "w3"})
		t.Repeat(map[string]func(*rapid.T){
			"accept": func(t *rapid.T) {
				m.accept(rapid.SampledFrom([]int{0, 1, 1, 1, 3, 101, 130}).Draw(t, "size"))
			},
			"claim": func(t *rapid.T) {
				m.claim(t, owner.Draw(t, "owner"), rapid.SampledFrom([]int{1, 2, 10, 500}).Draw(t, "limit"))
			},
			"finish": func(t *rapid.T) {
				if len(m.order) > 0 {
					m.finish(t)
				}
			},
			"replay": func(t *rapid.T) {
				if len(m.order) > 0 {
					m.replay(t, rapid.SampledFrom(m.order).Draw(t, "message"))
				}
			},
			"cancel": func(t *rapid.T) {
				if len(m.order) > 0 {
					m.cancel(notify.SendOf(rapid.SampledFrom(m.order).Draw(t, "message")))
				}
			},
			"release": func(t *rapid.T) { m.release(owner.Draw(t, "owner")) },
			"renew": func(t *rapid.T) {
				m.renew(owner.Draw(t, "owner"), time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds"))*time.Second)
			},
			"wait": func(t *rapid.T) {
				k.clock.Advance(time.Duration(rapid.SampledFrom([]int{0, 1, 30, 61}).Draw(t, "seconds")) * time.Second)
			},
			"": m.check,
		})
	})
}

// clean empties the queue for the next round, also after one that failed.
func (m *model) clean() {
	var left []int64
	for _, n := range m.order {
		if !m.messages[n].status.Final() {
			left = append(left, n)
		}
	}
	m.kit.finish(m.store, notify.Delivered, left...)
	m.clock.Advance(time.Hour)
	value[int](m.kit)(m.store.Purge(m.ctx, m.clock.Now()))
}

func (m *model) accept(size int) {
	m.Helper()
	send := m.kit.accept(m.store, m.sending("c", names("u", size)...))
	for i := range size {
		n := notify.MessageNumber(send.Number, i)
		m.messages[n] = &modelled{status: notify.Queued, due: m.clock.Now(), size: size}
		m.order = append(m.order, n)
	}
}

func (m *model) claim(t *rapid.T, owner string, limit int) {
	now := m.clock.Now()
	possible := 0
	for _, c := range m.messages {
		if !c.status.Final() && !c.due.After(now) && c.free(now) {
			possible++
		}
	}
	got := m.kit.claim(m.store, owner, limit)
	if len(got) != min(limit, possible) {
		t.Fatalf("%d messages, limit %d, possible %d", len(got), limit, possible)
	}
	for _, c := range got {
		want := m.messages[c.Number]
		switch {
		case want == nil:
			t.Fatalf("message %d has no send", c.Number)
		case want.status.Final() || want.due.After(now) || !want.free(now):
			t.Fatalf("message %d is given out, but %+v at %v", c.Number, *want, now)
		case c.Status != want.status || c.Attempts != want.attempts || c.Canceled != want.canceled:
			t.Fatalf("message is %+v, want %+v", c.Message, *want)
		}
		want.owner, want.until = owner, now.Add(time.Minute)
	}
}

func (m *model) finish(t *rapid.T) {
	now := m.clock.Now()
	var outcomes []notify.Outcome
	final := map[int64]bool{}
	for _, n := range rapid.SliceOfNDistinct(rapid.SampledFrom(m.order), 1, min(5, len(m.order)), rapid.ID).
		Draw(t, "messages") {
		o := notify.Outcome{
			Number: n, At: now, Attempted: rapid.Bool().Draw(t, "attempted"),
			Status: rapid.SampledFrom([]notify.Status{notify.Retry, notify.Delivered, notify.Failed, notify.Undeliverable,
				notify.Unsubscribed, notify.Skipped, notify.Throttled}).Draw(t, "status"),
		}
		if o.Status == notify.Retry {
			o.Due = now.Add(time.Duration(rapid.SampledFrom([]int{0, 20, 100}).Draw(t, "due")) * time.Second)
		}
		outcomes = append(outcomes, o)
		c := m.messages[n]
		if c.status.Final() {
			continue
		}
		c.status, c.due, c.owner = o.Status, o.Due, ""
		if c.canceled && o.Status == notify.Retry {
			c.status = notify.Canceled
		}
		c.canceled = false
		if o.Attempted {
			c.attempts++
		}
		if c.status.Final() {
			final[n] = true
		}
	}
	got := value[[]notify.Claimed](m.kit)(m.store.Finish(m.ctx, outcomes, nil))
	if len(got) != len(final) {
		t.Fatalf("%d became final, want %d", len(got), len(final))
	}
	for _, c := range got {
		if !final[c.Number] {
			t.Fatalf("message %d became final", c.Number)
		}
	}
}

func (m *model) replay(t *rapid.T, n int64) {
	err := m.store.Replay(m.ctx, "c", n)
	c := m.messages[n]
	if (err == nil) != (c.status == notify.Failed) {
		t.Fatalf("replay of a message that is %s: %v", c.status, err)
	}
	if err == nil {
		*c = modelled{status: notify.Queued, due: m.clock.Now(), size: c.size}
	}
}

// cancel may find leases that have ended, which may count as claims: those are given back first.
func (m *model) cancel(send int64) {
	now := m.clock.Now()
	for _, c := range m.messages {
		if c.owner != "" && c.free(now) {
			m.release(c.owner)
		}
	}
	value[notify.Send](m.kit)(m.store.Cancel(m.ctx, send))
	for n, c := range m.messages {
		if notify.SendOf(n) != send || c.status.Final() {
			continue
		}
		if c.owner != "" {
			c.canceled = true
		} else {
			c.status, c.canceled = notify.Canceled, false
		}
	}
}

func (m *model) release(owner string) {
	m.must(m.store.Release(m.ctx, owner))
	for _, c := range m.messages {
		if c.owner == owner {
			c.owner = ""
		}
	}
}

// renew may find leases that have ended: whether those count is open, so they
// are given back first.
func (m *model) renew(owner string, d time.Duration) {
	until := m.clock.Now().Add(d)
	for _, c := range m.messages {
		if c.owner == owner && c.free(m.clock.Now()) {
			m.release(owner)
			break
		}
	}
	m.must(m.store.Renew(m.ctx, owner, d))
	for _, c := range m.messages {
		if c.owner == owner && c.until.Before(until) {
			c.until = until
		}
	}
}

func (m *model) check(t *rapid.T) {
	waiting := 0
	counts := map[int64]notify.Counts{}
	for n, c := range m.messages {
		k := counts[notify.SendOf(n)]
		k.Total++
		switch c.status {
		case notify.Queued:
			k.Queued++
		case notify.Retry:
			k.Retry++
		case notify.Delivered:
			k.Delivered++
		case notify.Failed:
			k.Failed++
		case notify.Undeliverable:
			k.Undeliverable++
		case notify.Unsubscribed:
			k.Unsubscribed++
		case notify.Canceled:
			k.Canceled++
		case notify.Skipped:
			k.Skipped++
		case notify.Throttled:
			k.Throttled++
		}
		counts[notify.SendOf(n)] = k
		if !c.status.Final() {
			waiting++
		}
	}
	if got := value[int](m.kit)(m.store.Waiting(m.ctx)); got != waiting {
		t.Fatalf("%d wait, want %d", got, waiting)
	}
	for send, want := range counts {
		if got := m.counts(m.store, send); got != want {
			t.Fatalf("counts of send %d are %+v, want %+v", send, got, want)
		}
	}
	_, some, err := m.store.NextDue(m.ctx)
	if err != nil || some != (waiting > 0) {
		t.Fatalf("next due: %v with %d waiting, error %v", some, waiting, err)
	}
}
