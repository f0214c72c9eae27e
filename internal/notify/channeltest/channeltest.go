package channeltest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/notify"
)

// Setup is a channel with a way to see what it delivers to.
type Setup struct {
	// Channel is started and is stopped by the test's own clean-up.
	Channel notify.Channel
	// Received tells how often the other side took each message, by its id.
	Received func() map[string]int
	// Hang makes the other side answer nothing from now on, until it is called
	// again. Nil if the receiver cannot.
	Hang func(on bool)
	// Once means that the receiver recognizes a message that arrives again.
	Once bool
	// Users means that messages go to users, not to addresses; Anyone that it does not matter to whom they go.
	Users, Anyone bool
	// Phones means that addresses are phone numbers.
	Phones bool
	// Violations are what the other side saw and should not have.
	Violations func() []string
}

// Terms are what a test needs of its Setup.
type Terms struct {
	// Settled reports whether done was called for a message already; the other side calls it, when the content of the
	// next message arrives on the same connection, and reports a violation if not.
	Settled func(id string) bool
	// Grace is how long what is being delivered may take after the end of the context. It is short only where nothing
	// answers: a busy machine may take any time for what has begun.
	Grace time.Duration
}

// Make returns a fresh Setup.
type Make func(t *testing.T, terms Terms) Setup

// Run runs the suite.
func Run(t *testing.T, newSetup Make) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *bench){
		"Nothing":         nothing,
		"EachOnce":        eachOnce,
		"Again":           again,
		"Mixed":           mixed,
		"Concurrent":      concurrent,
		"EndedBefore":     endedBefore,
		"EndedDuring":     endedDuring,
		"EndedBetween":    endedBetween,
		"SlowDone":        slowDone,
		"HostileMessages": hostileMessages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{settled: map[string]bool{}}
			terms := Terms{Settled: b.isSettled, Grace: time.Minute}
			if name == "EndedDuring" {
				terms.Grace = 50 * time.Millisecond
			}
			b.Setup = newSetup(t, terms)
			test(t, b)
			if b.Violations != nil {
				for _, v := range b.Violations() {
					t.Error(v)
				}
			}
		})
	}
}

type bench struct {
	Setup
	mu      sync.Mutex
	settled map[string]bool
}

func (b *bench) isSettled(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.settled[id]
}

var shared = &notify.Body{Subject: "Hello", Text: "Hello, this is a text.\n", HTML: "<p>Hello</p>"}

// numbers are those of messages, which no two have in common.
var numbers atomic.Int64

func (b *bench) batch(prefix string, n int) []notify.Outgoing {
	all := make([]notify.Outgoing, n)
	for i := range all {
		all[i] = notify.Outgoing{
			Number: numbers.Add(1), ID: fmt.Sprintf("%s-%d", prefix, i), Attempt: 1,
			To: fmt.Sprintf("user%d@example%d.com", i, i%3), UserID: fmt.Sprint("user", i),
			Body: shared, ClientID: "client", Received: time.Now(),
		}
		if b.Phones {
			all[i].To = fmt.Sprintf("+49151%08d", i)
		}
	}
	return all
}

// deliver runs Deliver and checks what holds always: each done once, with a
// verdict, before Deliver returns.
func (b *bench) deliver(t *testing.T, ctx context.Context, //nolint:revive // t first, as in all helpers
	all []notify.Outgoing, each func(int, notify.Result)) []notify.Result {
	t.Helper()
	results := make([]notify.Result, len(all))
	counts := make([]atomic.Int32, len(all))
	var returned atomic.Bool
	b.Channel.Deliver(ctx, all, func(i int, r notify.Result) {
		if returned.Load() {
			t.Errorf("done(%d) after Deliver returned", i)
		}
		if each != nil {
			each(i, r)
		}
		if counts[i].Add(1) == 1 {
			results[i] = r
		}
		b.mu.Lock()
		b.settled[all[i].ID] = true
		b.mu.Unlock()
	})
	returned.Store(true)
	for i := range counts {
		if n := counts[i].Load(); n != 1 {
			t.Errorf("done was called %d times for message %d", n, i)
		}
		switch r := results[i]; {
		case r.Verdict < notify.Accepted || r.Verdict > notify.Permanent:
			t.Errorf("message %d has the verdict %d", i, r.Verdict)
		case r.Verdict != notify.Accepted && r.Reason == "":
			t.Errorf("message %d was not accepted, want a reason", i)
		case r.BadAddress && r.Verdict != notify.Permanent:
			t.Errorf("message %d has a bad address but is not given up: %+v", i, r)
		}
	}
	return results
}

// check compares verdicts with what arrived: what was accepted arrived exactly
// once, what was refused for good did not.
func (b *bench) check(t *testing.T, all []notify.Outgoing, results []notify.Result) {
	t.Helper()
	received := b.Received()
	for i, r := range results {
		n := received[all[i].ID]
		switch {
		case r.Verdict == notify.Accepted && n != 1:
			t.Errorf("message %d is accepted (%s) and arrived %d times", i, r.Reason, n)
		case r.Verdict == notify.Permanent && n != 0:
			t.Errorf("message %d is given up (%s) and arrived %d times", i, r.Reason, n)
		case n > 1:
			t.Errorf("message %d arrived %d times", i, n)
		}
	}
}

func accepted(t *testing.T, results []notify.Result) {
	t.Helper()
	for i, r := range results {
		if r.Verdict != notify.Accepted {
			t.Errorf("message %d: %+v", i, r)
		}
	}
}

func nothing(t *testing.T, b *bench) {
	b.deliver(t, t.Context(), nil, nil)
	if n := len(b.Received()); n != 0 {
		t.Errorf("%d messages came of nothing", n)
	}
}

func eachOnce(t *testing.T, b *bench) {
	for _, n := range []int{1, 2, 7, 200} {
		all := b.batch(fmt.Sprintf("once-%d", n), n)
		results := b.deliver(t, t.Context(), all, nil)
		accepted(t, results)
		b.check(t, all, results)
	}
}

// A second attempt is the same message to the receiver.
func again(t *testing.T, b *bench) {
	all := b.batch("again", 5)
	accepted(t, b.deliver(t, t.Context(), all, nil))
	for i := range all {
		all[i].Attempt = 2
	}
	accepted(t, b.deliver(t, t.Context(), all, nil))
	want := 2
	if b.Once {
		want = 1
	}
	for id, n := range b.Received() {
		if n != want {
			t.Errorf("%s arrived %d times in two attempts", id, n)
		}
	}
	if n := len(b.Received()); n != len(all) {
		t.Errorf("%d messages were received as %d", len(all), n)
	}
}

// One that cannot be delivered does not harm its neighbours.
func mixed(t *testing.T, b *bench) {
	all := b.batch("mixed", 30)
	for i := 0; i < len(all); i += 5 {
		all[i].To = []string{"", "nobody", "a b@example.com", "a@example.com\r\nRCPT TO:<b@example.com>",
			"a@[127.0.0.1]", "a@"}[i/5]
		all[i].UserID = []string{"", "\x00", "\xff", "a\rb\x00", strings.Repeat("u", 10_000), "\x7f"}[i/5]
	}
	results := b.deliver(t, t.Context(), all, nil)
	for i, r := range results {
		switch {
		case i%5 == 0 && !b.Anyone && (r.Verdict != notify.Permanent || r.BadAddress == b.Users):
			t.Errorf("%q: %+v", all[i].To, r)
		case (i%5 != 0 || b.Anyone) && r.Verdict != notify.Accepted:
			t.Errorf("message %d: %+v", i, r)
		}
	}
	b.check(t, all, results)
}

func concurrent(t *testing.T, b *bench) {
	var wait sync.WaitGroup
	for g := range 12 {
		wait.Go(func() {
			for round := range 3 {
				all := b.batch(fmt.Sprintf("concurrent-%d-%d", g, round), 20)
				results := b.deliver(t, t.Context(), all, nil)
				accepted(t, results)
				b.check(t, all, results)
			}
		})
	}
	wait.Wait()
}

func endedBefore(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	all := b.batch("before", 50)
	results := b.deliver(t, ctx, all, nil)
	for i, r := range results {
		if r.Verdict != notify.Temporary {
			t.Errorf("message %d, never tried: %+v", i, r)
		}
	}
	if n := len(b.Received()); n != 0 {
		t.Errorf("%d messages were delivered after the end", n)
	}
	// The channel still works.
	accepted(t, b.deliver(t, t.Context(), b.batch("after", 3), nil))
}

func endedDuring(t *testing.T, b *bench) {
	if b.Hang == nil {
		t.Skip("the receiver cannot hang")
	}
	all := b.batch("during", 50)
	b.Hang(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for i, r := range b.deliver(t, ctx, all, nil) {
		if r.Verdict != notify.Temporary {
			t.Errorf("message %d to a server that hangs: %+v", i, r)
		}
	}
	b.Hang(false)
	accepted(t, b.deliver(t, t.Context(), b.batch("during-after", 20), nil))
}

// The end comes when some messages are through: those stay accepted, none is
// delivered without being so.
func endedBetween(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all := b.batch("between", 300)
	var through atomic.Int32
	results := b.deliver(t, ctx, all, func(_ int, r notify.Result) {
		if r.Verdict == notify.Accepted && through.Add(1) == 20 {
			cancel()
		}
	})
	b.check(t, all, results)
	received, count := b.Received(), 0
	for i, r := range results {
		if r.Verdict == notify.Accepted {
			count++
		} else if received[all[i].ID] != 0 {
			t.Errorf("message %d arrived and is %+v", i, r)
		}
	}
	if count < 20 {
		t.Errorf("%d messages were accepted, 20 had been before the end", count)
	}
}

// done may take its time: it writes to a journal. The other side checks that no
// next content comes before it has returned.
func slowDone(t *testing.T, b *bench) {
	all := b.batch("slow", 60)
	results := b.deliver(t, t.Context(), all, func(int, notify.Result) { time.Sleep(time.Millisecond) })
	accepted(t, results)
	b.check(t, all, results)
}

// Whatever is in a message, it is delivered or refused, and the next one goes
// through.
func hostileMessages(t *testing.T, b *bench) {
	all := b.batch("hostile", 16)
	for i := range all {
		if i%2 == 1 {
			continue
		}
		evil := []string{"x\r\n.\r\nQUIT\r\n", "\x00", "\r\n.\r\n", ".\n..\n.\r\n", "\xff\xfe", "a\rb\nc", "\n\n\n", "x"}[i/2]
		all[i].Body = &notify.Body{Subject: evil, Text: evil, HTML: evil}
		all[i].ClientID = evil
	}
	results := b.deliver(t, t.Context(), all, nil)
	for i, r := range results {
		if i%2 == 1 && r.Verdict != notify.Accepted {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	b.check(t, all, results)
}
