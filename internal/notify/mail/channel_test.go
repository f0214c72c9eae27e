package mail_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/notify"
	"ingot/internal/notify/channeltest"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/mail/smtp"
)

// channel starts a channel into a sink.
func channel(t testing.TB, sink *mailtest.Sink, userinfo, query string, change func(*mail.Options)) *mail.Channel {
	t.Helper()
	o := mail.Options{
		URL: sink.URL(userinfo, query), Identity: mail.Identity{From: "Ingot <no-reply@ingot.example>"},
		Tune: func(c *smtp.Config) { c.Grace = 100 * time.Millisecond },
	}
	if change != nil {
		change(&o)
	}
	c, err := mail.NewChannel(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return c
}

func TestChannelContract(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]mailtest.Options{
		"Pipelining": {},
		"Plain":      {Without: []string{"PIPELINING", "8BITMIME", "SMTPUTF8", "SIZE", "ENHANCEDSTATUSCODES"}},
		"TLS":        {TLS: "implicit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			channeltest.Run(t, func(t *testing.T, terms channeltest.Terms) channeltest.Setup {
				return setup(t, options, terms)
			})
		})
	}
}

func setup(t *testing.T, options mailtest.Options, terms channeltest.Terms) channeltest.Setup {
	var (
		mu      sync.Mutex
		hanging chan struct{}
		early   []string
	)
	options.Content = func(connection int, previous, current string) {
		if previous != "" && !terms.Settled(previous) {
			mu.Lock()
			defer mu.Unlock()
			early = append(early, fmt.Sprintf("connection %d: the content of %s came before done of %s", connection,
				current, previous))
		}
	}
	options.Fault = func(s mailtest.Step) mailtest.Action {
		mu.Lock()
		defer mu.Unlock()
		if hanging != nil && (s.Stage == mailtest.Rcpt || s.Stage == mailtest.Connect) {
			return mailtest.Action{Hang: true, Until: hanging}
		}
		return mailtest.Action{}
	}
	sink := mailtest.New(t, options)
	c := channel(t, sink, "", "connections=4&messages=50", func(o *mail.Options) {
		o.Tune = func(c *smtp.Config) { c.Grace = terms.Grace }
		if options.TLS != "" {
			o.TLS = sink.ClientTLS()
		}
	})
	return channeltest.Setup{
		Channel: c, Received: sink.Received,
		Hang: func(on bool) {
			mu.Lock()
			defer mu.Unlock()
			if on {
				hanging = make(chan struct{})
			} else {
				close(hanging)
				hanging = nil
			}
		},
		Violations: func() []string {
			mu.Lock()
			defer mu.Unlock()
			return append(sink.Violations(), early...)
		},
	}
}

func TestChannelService(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{})
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		c, err := mail.NewChannel(mail.Options{URL: sink.URL("", ""), Identity: mail.Identity{From: "a@b.example"}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

// TestTagIsHidden: what a server says about the return path is shown to the client, without the tag.
func TestTagIsHidden(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{Fault: func(s mailtest.Step) mailtest.Action {
		if s.Stage != mailtest.Mail {
			return mailtest.Action{}
		}
		return mailtest.Action{Reply: "450 4.1.8 <" + s.From + ">: Sender address rejected"}
	}})
	c := channel(t, sink, "", "connections=1", func(o *mail.Options) {
		o.Identity.Return, o.Identity.Tag = "b@in.example", func(id string) string { return "secret-" + id }
	})
	for i, r := range deliver(t.Context(), c, messages("m", 3)) {
		if r.Verdict != notify.Temporary || r.Reason != "450 4.1.8 <b+…@in.example>: Sender address rejected" {
			t.Errorf("message %d: %+v", i, r)
		}
	}
}
