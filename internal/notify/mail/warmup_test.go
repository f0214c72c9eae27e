package mail_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/mail/pacing"
	"ingot/internal/notify/mail/smtp"
)

// counted counts what is taken from quotas without a limit.
type counted struct {
	mu    sync.Mutex
	taken int
}

func (c *counted) TakeMail(_ context.Context, _ int, wanted map[string]int,
	_ func(int) int) (map[string]notify.MailPart, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := map[string]notify.MailPart{}
	for name, n := range wanted {
		c.taken += n
		got[name] = notify.MailPart{Messages: n}
	}
	return got, nil
}

func (c *counted) ReturnMail(_ context.Context, _ int, unused map[string]int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range unused {
		c.taken -= n
	}
	return nil
}

// TestWarmUpCountsSent: whatever keeps messages from being sent, they do not use up the warm-up plan, and each has a
// result.
func TestWarmUpCountsSent(t *testing.T) {
	t.Parallel()
	answering := func(stage mailtest.Stage, reply string) func(mailtest.Step) mailtest.Action {
		return func(s mailtest.Step) mailtest.Action {
			if s.Stage != stage {
				return mailtest.Action{}
			}
			return mailtest.Action{Reply: reply}
		}
	}
	for what, tc := range map[string]struct {
		fault  func(mailtest.Step) mailtest.Action
		change func(*mail.Options, *mailtest.Sink)
		// before is called before the messages are delivered, in a context that cancel ends.
		before func(c *mail.Channel, sink *mailtest.Sink, cancel func())
		want   int
	}{
		"sent":                        {want: 20},
		"refused about the recipient": {fault: answering(mailtest.Rcpt, "550 5.1.1 unknown"), want: 20},
		"refused about the client":    {fault: answering(mailtest.Mail, "530 5.7.0 log in first")},
		"refused connection":          {before: func(_ *mail.Channel, sink *mailtest.Sink, _ func()) { sink.Close() }},
		"open breaker": {before: func(c *mail.Channel, sink *mailtest.Sink, _ func()) {
			sink.Close()
			for range 3 {
				deliver(t.Context(), c, messages("before", 20))
			}
		}},
		"canceled":       {before: func(_ *mail.Channel, _ *mailtest.Sink, cancel func()) { cancel() }},
		"stopped server": {before: func(c *mail.Channel, _ *mailtest.Sink, _ func()) { c.Stop() }},
		"too large": {change: func(o *mail.Options, _ *mailtest.Sink) {
			o.Identity.Return, o.Identity.Tag = "b@in.example", func(string) string { return strings.Repeat("x", 2000) }
		}},
		"panic": {change: func(o *mail.Options, _ *mailtest.Sink) {
			o.Identity.Return, o.Identity.Tag = "b@in.example", func(string) string { panic("a test") }
		}},
		"second mail server": {change: func(o *mail.Options, sink *mailtest.Sink) {
			o.Plan.Routes = []mail.Route{{Name: "down", URL: "smtp://" + closedPort(t), Weight: 1},
				{Name: "up", URL: sink.URL("", "")}}
		}, want: 20},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			sink := mailtest.New(t, mailtest.Options{Fault: tc.fault})
			q := &counted{}
			c := channel(t, sink, "", "connections=2", func(o *mail.Options) {
				o.Quotas, o.Plan.WarmUp = q, pacing.WarmUp{First: 1000, Growth: 1, Days: 1}
				o.Tune = func(c *smtp.Config) { c.Failures, c.Pause, c.Grace = 2, time.Hour, 100*time.Millisecond }
				if tc.change != nil {
					tc.change(o, sink)
				}
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.before != nil {
				tc.before(c, sink, cancel)
			}
			for i, r := range deliver(ctx, c, messages("m", 20)) {
				if r.Verdict == 0 {
					t.Errorf("message %d has no result", i)
				}
			}
			if q.taken != tc.want {
				t.Errorf("%d messages count, want %d", q.taken, tc.want)
			}
		})
	}
}
