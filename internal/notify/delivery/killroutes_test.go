package delivery

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/mailtest"
)

// people are the users of a victim.
func (v victim) people() *people {
	p := newPeople(v.Users)
	for i, id := range p.order {
		switch {
		case v.Slow == 0:
		case i%v.Slow == 0:
			p.emails[id] = fmt.Sprintf("user%d@slow.example", i)
		default:
			p.emails[id] = fmt.Sprintf("user%d@quick%d.example", i, i%7)
		}
	}
	return p
}

// moody is a mail server of which a domain is slow, and that refuses now and then, if it may, what it has not taken.
func moody(refuses bool) mailtest.Fault {
	var steps atomic.Int64
	now := func(each int64) bool { return refuses && steps.Add(1)%each == 0 }
	return func(s mailtest.Step) mailtest.Action {
		switch {
		case s.Stage == mailtest.Dot && strings.HasSuffix(s.To, "@slow.example"):
			return mailtest.Action{Delay: 600 * time.Millisecond} // enough to stay slow
		case s.Stage == mailtest.Dot:
			return mailtest.Action{Delay: 3 * time.Millisecond}
		case s.Stage == mailtest.Connect && now(3):
			return mailtest.Action{Reply: "421 4.3.2 not now"}
		case s.Stage == mailtest.Mail && now(40):
			return mailtest.Action{Reply: "421 4.3.2 no more"}
		case s.Stage == mailtest.Content && now(50):
			return mailtest.Action{Drop: true, Reset: true}
		}
		return mailtest.Action{}
	}
}

// sinks are the mail servers of a test.
type sinks []*mailtest.Sink

// received returns how often each message arrived, and how many did, those to the slow domain too.
func (all sinks) received() (byID map[string]int, accepted int) {
	byID = map[string]int{}
	for _, s := range all {
		for id, n := range s.Received() {
			byID[id] += n
			accepted += n
		}
	}
	return byID, accepted
}

// slow returns how many messages to the slow domain arrived.
func (all sinks) slow() (n int) {
	for _, s := range all {
		for _, m := range s.Messages() {
			if strings.HasSuffix(m.To, "@slow.example") {
				n++
			}
		}
	}
	return n
}

// wait waits until something is true of what arrived; it returns false if nothing arrives for long.
func (all sinks) wait(enough func() bool) bool {
	for {
		first, second := all[0].Changed(), all[1].Changed()
		if enough() {
			return true
		}
		select {
		case <-first:
		case <-second:
		case <-time.After(2 * time.Minute):
			return false
		}
	}
}

// TestSoakKillRoutes kills the server with SIGKILL again and again while it sends over two mail servers, of which one
// refuses now and then, also to a slow domain: everyone gets the mail, and at most one message a connection and kill
// comes twice. INGOT_SOAK=1 makes it the long form.
func TestSoakKillRoutes(t *testing.T) {
	t.Parallel()
	const each, slowEach = 4, 10
	users, kills := 600, 8
	if os.Getenv("INGOT_SOAK") == "1" {
		users, kills = 6000, 120
	}
	var both sinks
	for _, refuses := range []bool{true, false} {
		both = append(both, mailtest.New(t, mailtest.Options{Keep: 2 * users, Fault: moody(refuses)}))
	}
	dir := t.TempDir()
	v := victim{
		Database: "sqlite:" + filepath.Join(dir, "test.db"), Key: seal.NewKey(), Dir: filepath.Join(dir, "delivery"),
		Users: users, Slow: slowEach, Late: 50 * time.Millisecond,
	}
	for i, sink := range both {
		v.Routes = append(v.Routes, mail.Route{Name: fmt.Sprintf("route%d", i), Weight: 1,
			URL: sink.URL("", fmt.Sprintf("connections=%d&slow-connections=%d", each, each))})
	}
	d, store, err := v.open(t.Context())
	testkit.Must(t, err)
	send, _, err := store.Accept(t.Context(), notify.NewSend{Send: notify.Send{
		ClientID: "shop", KindID: "news", Audiences: []notify.Audience{{Type: notify.ToEveryone}},
		Content: notify.Content{Subject: "Hello", Text: "text"}, Received: time.Now(),
	}})
	testkit.Must(t, err)
	testkit.Must(t, d.Close())

	slow := users / slowEach
	for i := range kills {
		cmd := v.spawn(t)
		// While it sends to all, and while it still waits for the slow domain.
		_, accepted := both.received()
		until, slowUntil := min(accepted+rand.IntN(2*users/kills), users), min(both.slow()+rand.IntN(2*slow/kills), slow)
		arrived := both.wait(func() bool {
			if i%2 == 1 {
				return both.slow() >= slowUntil
			}
			_, accepted := both.received()
			return accepted >= until
		})
		testkit.Must(t, cmd.Process.Kill())
		cmd.Wait() //nolint:errcheck // it was killed
		if !arrived {
			t.Fatal("no mail arrives")
		}
	}
	before, _ := both.received()
	last := v.spawn(t)
	complete := both.wait(func() bool { byID, _ := both.received(); return len(byID) >= users })
	testkit.Must(t, last.Process.Kill())
	last.Wait() //nolint:errcheck // it was killed

	byID, accepted := both.received()
	doubles, most := accepted-len(byID), kills*len(both)*2*each
	t.Logf("%d users, %d kills, %d of them got it before the last start, %d duplicates (at most %d)", users, kills,
		len(before), doubles, most)
	if !complete || len(byID) != users {
		t.Errorf("%d of %d users got the mail", len(byID), users)
	}
	if doubles > most {
		t.Errorf("%d duplicates by %d kills with %d connections to each of %d mail servers", doubles, kills, 2*each,
			len(both))
	}
	for i, sink := range both {
		if v := sink.Violations(); len(v) > 0 || sink.Accepted() == 0 {
			t.Errorf("mail server %d took %d messages, violations of the protocol are %v", i, sink.Accepted(), v)
		}
	}
	v.ended(t, send.Number)
}

// ended lets a server record what a killed one has left of a send that was delivered.
func (v victim) ended(t *testing.T, number int64) {
	t.Helper()
	d, store, err := v.open(t.Context())
	testkit.Must(t, err)
	defer d.Close()
	final := New(Options{Store: store, Directory: v.people(), Channel: &post{}, IDs: testIDs(t), Dir: v.Dir,
		Poll: 50 * time.Millisecond})
	testkit.Must(t, final.Start(t.Context()))
	defer final.Stop()
	testkit.Eventually(t, "the send is finished", func() bool {
		s, err := store.Send(t.Context(), number)
		return err == nil && !s.Finished.IsZero()
	})
	s, err := store.Send(t.Context(), number)
	testkit.Must(t, err)
	if s.Counts.Total != v.Users || s.Counts.Delivered != v.Users {
		t.Errorf("counts are %+v, want all %d delivered", s.Counts, v.Users)
	}
	checkFigures(t, store, number)
}
