package mail_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/mail/smtp"
)

var body = &notify.Body{Subject: "Hello", Text: strings.Repeat("A line of text.\n", 40),
	HTML: strings.Repeat("<p>A line of text.</p>\n", 40)}

func messages(prefix string, n int) []notify.Outgoing {
	all := make([]notify.Outgoing, n)
	for i := range all {
		all[i] = notify.Outgoing{ID: fmt.Sprintf("%s-%d", prefix, i), To: fmt.Sprintf("user%d@example.com", i), Body: body,
			ClientID: "c", Received: time.Now()}
	}
	return all
}

func deliver(ctx context.Context, c notify.Channel, all []notify.Outgoing) []notify.Result {
	results := make([]notify.Result, len(all))
	c.Deliver(ctx, all, func(i int, r notify.Result) { results[i] = r })
	return results
}

// Each row is a server that misbehaves, and what must become of a message.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		at      mailtest.Stage
		reply   string
		verdict notify.Verdict
		bad     bool
		retry   time.Duration
	}{
		{"unknown user", mailtest.Rcpt, "550 5.1.1 no such user", notify.Permanent, true, 0},
		{"unknown user, old server", mailtest.Rcpt, "550 no such user", notify.Permanent, true, 0},
		{"user moved", mailtest.Rcpt, "551 5.1.6 gone", notify.Permanent, true, 0},
		{"disabled", mailtest.Rcpt, "550 5.2.1 disabled", notify.Permanent, true, 0},
		{"policy", mailtest.Rcpt, "550 5.7.1 not from you", notify.Permanent, false, 0},
		{"full for good", mailtest.Rcpt, "552 5.2.2 full", notify.Permanent, false, 0},
		{"sender refused", mailtest.Mail, "550 5.1.8 bad sender", notify.Permanent, false, 0},
		{"old server refuses sender", mailtest.Mail, "550 no", notify.Permanent, false, 0},
		{"greylisted", mailtest.Rcpt, "451 4.7.1 greylisted, try again in 5 minutes", notify.Temporary, false,
			5 * time.Minute},
		{"busy", mailtest.Rcpt, "450 4.2.1 busy", notify.Temporary, false, 0},
		{"sender later", mailtest.Mail, "452 4.3.1 no space", notify.Temporary, false, 0},
		{"authentication wanted", mailtest.Mail, "530 5.7.0 log in first", notify.Temporary, false, 0},
		{"DATA later", mailtest.Data, "451 4.3.0 not now", notify.Temporary, false, 0},
		{"DATA never", mailtest.Data, "554 5.3.0 no", notify.Permanent, false, 0},
		{"spam", mailtest.Dot, "554 5.7.1 spam", notify.Permanent, false, 0},
		{"content later", mailtest.Dot, "451 4.3.0 later", notify.Temporary, false, 0},
		{"bad mailbox found late", mailtest.Dot, "550 5.1.1 no such user", notify.Permanent, true, 0},
		{"closing", mailtest.Rcpt, "421 4.3.2 closing", notify.Temporary, false, 0},
		{"closing late", mailtest.Dot, "421 4.3.2 closing", notify.Temporary, false, 0},
		{"several lines", mailtest.Rcpt, "550-5.1.1 first\r\n550 5.1.1 second", notify.Permanent, true, 0},
		{"contradiction", mailtest.Rcpt, "550 4.1.1 what", notify.Permanent, true, 0},
		{"nonsense code", mailtest.Dot, "354 more", notify.Temporary, false, 0},
		{"garbage at MAIL", mailtest.Mail, "hello there", notify.Temporary, false, 0},
		{"garbage at RCPT", mailtest.Rcpt, "25", notify.Temporary, false, 0},
		{"garbage at the end", mailtest.Dot, "250_ok", notify.Temporary, false, 0},
		{"endless line", mailtest.Dot, "250 " + strings.Repeat("x", 100_000), notify.Temporary, false, 0},
		{"lines that disagree", mailtest.Dot, "250-a\r\n550 b", notify.Temporary, false, 0},
	} {
		for _, without := range [][]string{nil, {"PIPELINING"}} {
			t.Run(fmt.Sprintf("%s %v", test.name, without), func(t *testing.T) {
				t.Parallel()
				// Only the third message meets the fault: the others must pass.
				fault := func(s mailtest.Step) mailtest.Action {
					if s.Stage == test.at && (s.To == "user2@example.com" || strings.Contains(s.From, "-2@")) {
						return mailtest.Action{Reply: test.reply}
					}
					return mailtest.Action{}
				}
				sink := mailtest.New(t, mailtest.Options{Fault: fault, Without: without})
				c := channel(t, sink, "", "connections=1", func(o *mail.Options) {
					o.Identity.Return, o.Identity.Tag = "b@in.example", strings.ToLower
				})
				all := messages("m", 6)
				for i, r := range deliver(t.Context(), c, all) {
					switch {
					case i != 2 && r.Verdict != notify.Accepted:
						t.Errorf("message %d: %+v", i, r)
					case i == 2 && (r.Verdict != test.verdict || r.BadAddress != test.bad || r.RetryAfter != test.retry ||
						r.Reason == "" || len(r.Reason) > 600):
						t.Errorf("result is %+v, want verdict %v, bad address %v, retry after %v and a short reason", r, test.verdict,
							test.bad, test.retry)
					}
				}
				for id, n := range sink.Received() {
					if n != 1 {
						t.Errorf("%s arrived %d times", id, n)
					}
				}
				if v := sink.Violations(); len(v) > 0 {
					t.Errorf("protocol violations are %v, want none", v)
				}
			})
		}
	}
}

// A server that takes DATA although it refused the recipient gets an empty
// content, not the message.
func TestDataAfterRefusal(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{Fault: func(s mailtest.Step) mailtest.Action {
		switch {
		case s.Stage == mailtest.Rcpt && s.To == "user1@example.com":
			return mailtest.Action{Reply: "550 5.1.1 no"}
		case s.Stage == mailtest.Data:
			return mailtest.Action{Reply: "354 go ahead"}
		}
		return mailtest.Action{}
	}})
	c := channel(t, sink, "", "connections=1", nil)
	for i, r := range deliver(t.Context(), c, messages("m", 4)) {
		if (i == 1) != (r.Verdict == notify.Permanent) {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	if v := sink.Violations(); len(v) > 0 || sink.Accepted() != 3 {
		t.Errorf("%d accepted, %q", sink.Accepted(), v)
	}
}

// Connections that break cost at most the one message that was on its way, and
// that one is Temporary.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fault mailtest.Fault
		lost  int // messages that may be Temporary
		twice bool
	}{
		"dropped at MAIL": {mailtest.Times(2, mailtest.At(mailtest.Mail, mailtest.Action{Drop: true})), 2,
			false},
		"dropped in the content": {mailtest.Times(2, mailtest.At(mailtest.Content, mailtest.Action{Drop: true})), 2,
			false},
		"reset in the content": {mailtest.Times(2, mailtest.At(mailtest.Content,
			mailtest.Action{Drop: true, Reset: true})), 2, false},
		"dropped before the answer": {mailtest.Times(2, mailtest.At(mailtest.Dot, mailtest.Action{Drop: true})), 2, false},
		"taken, dropped before answer": {
			mailtest.First(mailtest.Times(2, mailtest.At(mailtest.Dot, mailtest.Action{Drop: true})),
				mailtest.At(mailtest.Lost, mailtest.Action{Taken: true})), 2, true},
		"hanging at RCPT": {mailtest.Times(2, mailtest.At(mailtest.Rcpt, mailtest.Action{Hang: true})), 2,
			false},
		"hanging after the content": {mailtest.Times(2, mailtest.At(mailtest.Dot, mailtest.Action{Hang: true})), 2, false},
		"garbage": {mailtest.Times(2, mailtest.At(mailtest.Dot, mailtest.Action{Reply: "\x00\x01\x02"})),
			2, false},
		"greylisting": {mailtest.Greylist(), 40, false},
		"slow":        {mailtest.At(mailtest.Dot, mailtest.Action{Delay: time.Millisecond}), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := mailtest.New(t, mailtest.Options{Fault: test.fault})
			c := channel(t, sink, "", "connections=2", func(o *mail.Options) {
				o.Tune = func(c *smtp.Config) {
					// Generous where the server does answer, short where it hangs.
					if strings.HasPrefix(name, "hanging") {
						c.Timeout, c.ContentTimeout = 400*time.Millisecond, 400*time.Millisecond
					}
				}
			})
			all := messages("m", 40)
			first := deliver(t.Context(), c, all)
			var again []notify.Outgoing
			for i, r := range first {
				if r.Verdict == notify.Permanent {
					t.Errorf("message %d is given up: %+v", i, r)
				}
				if r.Verdict == notify.Temporary {
					again = append(again, all[i])
				}
			}
			hangs := strings.HasPrefix(name, "hanging") // a slow machine may add timeouts
			if len(again) > test.lost && !hangs {
				t.Errorf("%d messages have to be tried again, at most %d were on their way", len(again), test.lost)
			}
			for range 20 {
				if len(again) == 0 {
					break
				}
				var left []notify.Outgoing
				for i, r := range deliver(t.Context(), c, again) {
					if r.Verdict != notify.Accepted {
						left = append(left, again[i])
					}
				}
				again = left
			}
			received := sink.Received()
			if len(received) != len(all) || len(again) > 0 {
				t.Errorf("%d of %d messages arrived, %d are left", len(received), len(all), len(again))
			}
			duplicates := 0
			for _, n := range received {
				duplicates += n - 1
			}
			if test.twice && duplicates != 2 || !test.twice && !hangs && duplicates != 0 {
				t.Errorf("%d duplicates", duplicates)
			}
		})
	}
}

// A server that closed a connection while it was idle costs nothing.
func TestStaleConnection(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]mailtest.Action{"closed": {Drop: true},
		"with notice": {Reply: "421 4.4.2 idle for too long"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			seen := map[int]int{}
			sink := mailtest.New(t, mailtest.Options{Fault: func(s mailtest.Step) mailtest.Action {
				if s.Stage != mailtest.Mail {
					return mailtest.Action{}
				}
				mu.Lock()
				defer mu.Unlock()
				if seen[s.Connection]++; seen[s.Connection] == 2 {
					return last
				}
				return mailtest.Action{}
			}})
			c := channel(t, sink, "", "", nil)
			for i := range 5 {
				if r := deliver(t.Context(), c, messages(fmt.Sprint("m", i), 1)); r[0].Verdict != notify.Accepted {
					t.Errorf("result is %+v, want accepted", r[0])
				}
			}
			if sink.Accepted() != 5 || sink.Connections() != 5 {
				t.Errorf("%d messages over %d connections", sink.Accepted(), sink.Connections())
			}
		})
	}
}

func TestServerDown(t *testing.T) {
	t.Parallel()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
	sink := mailtest.New(t, mailtest.Options{Addr: addr})
	sink.Close()
	var log strings.Builder
	c := channel(t, sink, "", "connections=2", func(o *mail.Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil)) // the handler writes one line at a time
		o.Tune = func(c *smtp.Config) { c.Failures, c.Pause = 4, 50*time.Millisecond }
	})
	var left bool
	for range 10 {
		for _, r := range deliver(t.Context(), c, messages("down", 10)) {
			if r.Verdict != notify.Temporary {
				t.Fatalf("result is %+v, want temporary", r)
			}
			if r.RetryAfter == 50*time.Millisecond && strings.Contains(r.Reason, "several times in a row") {
				left = true
			}
		}
	}
	if !left {
		t.Error("the breaker did not open")
	}
	back, err := mailtest.Start(mailtest.Options{Addr: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(back.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for n := 0; ctx.Err() == nil; n++ {
		if r := deliver(ctx, c, messages(fmt.Sprint("back", n), 1)); r[0].Verdict == notify.Accepted {
			c.Stop()
			if text := log.String(); !strings.Contains(text, "mail server is down") || !strings.Contains(text, "refused") ||
				!strings.Contains(text, "mail server is back") {
				t.Errorf("log is %s, want the mail server down, refused and back", text)
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Error("the server is back and nothing is sent to it")
}

// A server that refuses further connections does not stop those it has.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{Fault: func(s mailtest.Step) mailtest.Action {
		if s.Stage == mailtest.Connect && s.Connection > 2 {
			return mailtest.Action{Reply: "421 4.7.0 too many connections"}
		}
		return mailtest.Action{}
	}})
	c := channel(t, sink, "", "connections=6", nil)
	for i, r := range deliver(t.Context(), c, messages("m", 200)) {
		if r.Verdict != notify.Accepted {
			t.Errorf("message %d: %+v", i, r)
		}
	}
}
