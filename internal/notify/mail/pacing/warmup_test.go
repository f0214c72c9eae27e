package pacing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/pacing"
)

// quotas is a plan's store.
type quotas struct {
	mu    sync.Mutex
	taken map[string]int
	calls int
	err   error
	// taking is called before something is taken.
	taking func(wanted map[string]int)
}

func newQuotas() *quotas { return &quotas{taken: map[string]int{}, taking: func(map[string]int) {}} }

func (q *quotas) TakeMail(_ context.Context, day int, wanted map[string]int,
	quota func(int) int) (map[string]notify.MailPart, error) {
	q.taking(wanted)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls++
	got := map[string]notify.MailPart{}
	for name, n := range wanted {
		key := fmt.Sprint(day, name)
		nth := day - 1_900_000_000/86400
		most := quota(nth)
		if most < 0 {
			got[name] = notify.MailPart{Messages: notify.NoMailQuota, Day: nth}
			continue
		}
		n = min(n, most-q.taken[key])
		got[name] = notify.MailPart{Messages: n, Day: nth}
		q.taken[key] += n
	}
	return got, q.err
}

func (q *quotas) ReturnMail(_ context.Context, day int, unused map[string]int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	for name, n := range unused {
		q.taken[fmt.Sprint(day, name)] -= n
	}
	return nil
}

// warming returns a Pacer that uses a plan's store.
func warming(t *testing.T, q *quotas, first int, change func(*pacing.Options)) *world {
	t.Helper()
	o := pacing.Options{WarmUp: pacing.WarmUp{First: first, Growth: 2, Days: 3}, Quotas: q}
	if change != nil {
		change(&o)
	}
	return start(t, o)
}

// batch returns messages of a client to domains.
func batch(domains ...string) []pacing.Message {
	all := make([]pacing.Message, len(domains))
	for i, name := range domains {
		all[i] = pacing.Message{Client: "a", Domain: name}
	}
	return all
}

// TestWarmUp: each day has more messages, up to the end of the plan.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	q := newQuotas()
	w := warming(t, q, 10, nil)
	for _, want := range []int{10, 20, 40} {
		if n := len(w.admitted("a", "x.example")); n != want {
			t.Errorf("%d messages were sent, want %d", n, want)
		}
		calls := q.calls
		a := w.ask("b", "x.example")
		if next := w.now.Add(a.RetryAfter); a.Pool != pacing.Later || next.Sub(w.now.Truncate(24*time.Hour)) < 24*time.Hour {
			t.Errorf("the next gets %+v", a)
		}
		if q.calls != calls {
			t.Error("the store is asked again although the quota is spent")
		}
		w.now = w.now.Add(24 * time.Hour)
	}
	for range 1000 {
		if a := w.ask("a", "x.example"); a.Pool != pacing.Main {
			t.Fatalf("after the plan a message gets %+v", a)
		}
	}
	w.Return(t.Context(), batch("x.example"))
	if n := w.Counts().WarmUp; n != 6 {
		t.Errorf("%d were postponed, want 6", n)
	}
	q.err = errors.New("down")
	w.now = w.now.Add(24 * time.Hour)
	if _, err := w.Admit(t.Context(), batch("x.example")); !errors.Is(err, q.err) {
		t.Errorf("error is %v", err)
	}
}

// TestWarmUpTogether: a batch that another one overtakes keeps what it counted on, and no message waits for the next
// day while there is something left.
func TestWarmUpTogether(t *testing.T) {
	t.Parallel()
	q := newQuotas()
	w := warming(t, q, 10, nil)
	for _, a := range w.admitted("a", "x.example") {
		w.Away(pacing.Message{Client: "a", Domain: "x.example"}, a)
	}
	var five []string
	for range 5 {
		five = append(five, "x.example")
	}
	overtaken := false
	q.taking = func(wanted map[string]int) {
		if wanted["y.example"] == 0 || overtaken {
			return
		}
		overtaken = true
		for range 2 { // the second one needs more than is left
			if _, err := w.Admit(t.Context(), batch(five...)); err != nil {
				t.Error(err)
			}
		}
	}
	all, err := w.Admit(t.Context(), batch(append([]string{"y.example"}, five...)...))
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range all {
		if a.Pool != pacing.Main {
			t.Errorf("message %d of the batch that was overtaken gets %+v", i, a)
		}
	}
}

// TestWarmUpConcurrently: with quota for all, concurrent batches are admitted completely.
func TestWarmUpConcurrently(t *testing.T) {
	t.Parallel()
	q := newQuotas()
	w := warming(t, q, 1_000_000, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				asked := batch("x.example", "x.example", "x.example", "y.example")
				got, err := w.Admit(t.Context(), asked)
				if err != nil {
					t.Error(err)
				}
				for i, a := range got {
					if a.Pool == pacing.Later {
						t.Errorf("a message gets %+v", a)
						return
					}
					w.Answered("a", asked[i].Domain, a, pacing.Answer{}) // not sent
				}
				w.Return(t.Context(), asked)
			}
		})
	}
	all.Wait()
	for name, n := range q.taken {
		if n != 0 {
			t.Errorf("%d were taken for %s, want 0", n, name)
		}
	}
}

// TestWarmUpUnsent: what was not sent uses nothing up, however it left: another server may send as much.
func TestWarmUpUnsent(t *testing.T) {
	t.Parallel()
	const name = "x.example"
	m := pacing.Message{Client: "a", Domain: name}
	answered := func(how pacing.Answer) func(*world, pacing.Admission) {
		return func(w *world, a pacing.Admission) { w.Answered("a", name, a, how) }
	}
	for what, tc := range map[string]struct {
		end    func(*world, pacing.Admission)
		change func(*pacing.Options)
		want   int
	}{
		"no connection": {end: answered(pacing.Answer{}), want: 10},
		"no login":      {end: answered(pacing.Answer{Took: time.Millisecond, Unsent: true}), want: 10},
		"turned away":   {end: func(w *world, a pacing.Admission) { w.Away(m, a) }, want: 10},
		"rate": {end: answered(pacing.Answer{Took: time.Millisecond}), want: 8,
			change: func(o *pacing.Options) { o.Default.Rate = 1 }},
		"sent":               {end: answered(pacing.Answer{Took: time.Millisecond})},
		"asked to send less": {end: answered(pacing.Answer{Took: time.Millisecond, Busy: true})},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			q := newQuotas()
			w, other := warming(t, q, 10, tc.change), warming(t, q, 10, nil)
			asked := batch(name, name, name, name, name, name, name, name, name, name, name, name)
			all, err := w.Admit(t.Context(), asked)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range all {
				if a.Pool != pacing.Later {
					tc.end(w, a)
				}
			}
			q.err = errors.New("down")
			w.Return(t.Context(), asked) // it is kept until the store can be reached
			q.err = nil
			w.Return(t.Context(), asked)
			if n := len(other.admitted("a", name)); n != tc.want {
				t.Errorf("another server may send %d messages, want %d", n, tc.want)
			}
		})
	}
}

// TestWarmUpReturned: a quota that was spent is asked for again later, because another server may have returned some.
func TestWarmUpReturned(t *testing.T) {
	t.Parallel()
	q := newQuotas()
	w, other := warming(t, q, 10, nil), warming(t, q, 10, nil)
	a := w.ask("a", "x.example")
	if n := len(other.admitted("a", "x.example")); n != 9 {
		t.Fatalf("the other server sends %d", n)
	}
	w.Answered("a", "x.example", a, pacing.Answer{})
	w.Return(t.Context(), batch("x.example"))
	if n := len(other.admitted("a", "x.example")); n != 0 {
		t.Errorf("it sends %d more at once", n)
	}
	other.now = other.now.Add(time.Minute)
	if n := len(other.admitted("a", "x.example")); n != 1 {
		t.Errorf("a minute later it sends %d, want 1", n)
	}
}

// TestWarmUpSpread: what waits for later days comes back on as many as their quotas need, and not at once. A
// client with few messages does not wait behind one that has many.
func TestWarmUpSpread(t *testing.T) {
	t.Parallel()
	w := warming(t, newQuotas(), 10, nil)
	day := func(a pacing.Admission) int { return int(w.now.Add(a.RetryAfter).Unix()/86400 - w.now.Unix()/86400) }
	w.admitted("a", "x.example") // the last one is the first of tomorrow
	days := map[int]int{1: 1}
	moments := map[time.Duration]bool{}
	for range 159 {
		a := w.ask("a", "x.example")
		if moments[a.RetryAfter] {
			t.Errorf("two messages come back after %s", a.RetryAfter)
		}
		moments[a.RetryAfter] = true
		days[day(a)]++
	}
	// The plan ends with the third day, so all others come on the fourth.
	if want := map[int]int{1: 20, 2: 40, 3: 100}; !maps.Equal(days, want) {
		t.Errorf("messages come back on the days %v, want %v", days, want)
	}
	for range 3 {
		if a := w.ask("b", "x.example"); day(a) != 1 {
			t.Errorf("a message of another client comes back on day %d", day(a))
		}
	}

	// The next day sends its quota, and plans what is left behind the others.
	w.now = w.now.Truncate(24 * time.Hour).Add(25 * time.Hour)
	sent := 0
	for range 23 {
		if a := w.ask("a", "x.example"); a.Pool != pacing.Later {
			sent++
		} else if day(a) != 2 {
			t.Errorf("one that has no room comes back after %d days, want on the day without a quota", day(a))
		}
	}
	if sent != 20 {
		t.Errorf("%d were sent on the second day, want 20", sent)
	}
}

// TestWarmUpAhead: messages are planned for a week, so that they come back if those before them are canceled.
func TestWarmUpAhead(t *testing.T) {
	t.Parallel()
	w := warming(t, newQuotas(), 1, func(o *pacing.Options) { o.WarmUp.Growth, o.WarmUp.Days = 1, 100 })
	w.ask("a", "x.example")
	latest := time.Duration(0)
	for range 1000 {
		latest = max(latest, w.ask("a", "x.example").RetryAfter)
	}
	if latest <= 6*24*time.Hour || latest > 8*24*time.Hour {
		t.Errorf("the last one comes back after %s, want about a week", latest)
	}
}
