package mail_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/mail/smtp"
)

func TestConnectionsAreReusedAndEnded(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{})
	c := channel(t, sink, "", "connections=3&messages=10", nil)
	for range 3 {
		for _, r := range deliver(t.Context(), c, messages("m", 1)) {
			if r.Verdict != notify.Accepted {
				t.Errorf("result is %+v, want accepted", r)
			}
		}
	}
	if n := sink.Connections(); n != 1 {
		t.Errorf("3 messages one after the other took %d connections", n)
	}
	for i, r := range deliver(t.Context(), c, messages("n", 97)) {
		if r.Verdict != notify.Accepted {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	if n := sink.Connections(); n < 10 || n > 14 {
		t.Errorf("100 messages at 10 a connection took %d connections", n)
	}
	c.Stop()
	waitFor(t, sink, func() bool { return sink.Open() == 0 })
	for _, r := range deliver(t.Context(), c, messages("late", 2)) {
		if r.Verdict != notify.Temporary {
			t.Errorf("after the stop: %+v", r)
		}
	}
}

func waitFor(t *testing.T, sink *mailtest.Sink, what func() bool) {
	t.Helper()
	timeout := time.After(3 * time.Minute)
	for {
		changed := sink.Changed()
		if what() {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatal("it did not happen")
		}
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{})
	c := channel(t, sink, "", "idle=20ms", nil)
	deliver(t.Context(), c, messages("m", 1))
	waitFor(t, sink, func() bool { return sink.Open() == 0 })
	if r := deliver(t.Context(), c, messages("n", 1)); r[0].Verdict != notify.Accepted {
		t.Errorf("result is %+v, want accepted", r[0])
	}
}

func TestDomainLimit(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	busy, most := map[string]map[int]bool{}, map[string]int{}
	sink := mailtest.New(t, mailtest.Options{Fault: func(s mailtest.Step) mailtest.Action {
		_, domain, _ := strings.Cut(s.To, "@")
		mu.Lock()
		defer mu.Unlock()
		switch s.Stage {
		case mailtest.Data:
			if busy[domain] == nil {
				busy[domain] = map[int]bool{}
			}
			busy[domain][s.Connection] = true
			most[domain] = max(most[domain], len(busy[domain]))
		case mailtest.Dot:
			delete(busy[domain], s.Connection)
			return mailtest.Action{Delay: time.Millisecond}
		}
		return mailtest.Action{}
	}})
	c := channel(t, sink, "", "connections=6&domain-connections=2", nil)
	var all sync.WaitGroup
	for g := range 3 {
		all.Go(func() {
			batch := messages(fmt.Sprint("g", g), 60)
			for i := range batch {
				if i%3 == 0 {
					batch[i].To = fmt.Sprintf("u@other%d.example", i)
				}
			}
			for i, r := range deliver(t.Context(), c, batch) {
				if r.Verdict != notify.Accepted {
					t.Errorf("message %d: %+v", i, r)
				}
			}
		})
	}
	all.Wait()
	if n := most["example.com"]; n > 2 || n == 0 {
		t.Errorf("%d connections sent to one domain at once", n)
	}
}

func TestSizeAndUTF8(t *testing.T) {
	t.Parallel()
	big := messages("big", 3)
	big[1].Body = &notify.Body{Subject: "big", Text: strings.Repeat("x", 50_000)}
	sink := mailtest.New(t, mailtest.Options{Size: 20_000})
	for i, r := range deliver(t.Context(), channel(t, sink, "", "", nil), big) {
		if (i == 1) != (r.Verdict == notify.Permanent && strings.Contains(r.Reason, "20000")) || r.BadAddress {
			t.Errorf("message %d: %+v", i, r)
		}
	}

	international := messages("utf8", 3)
	international[1].To = "jörg@exämple.org"
	international[2].To = "ann@exämple.org"
	modern := mailtest.New(t, mailtest.Options{Keep: 10})
	for i, r := range deliver(t.Context(), channel(t, modern, "", "", nil), international) {
		if r.Verdict != notify.Accepted {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	for _, m := range modern.Messages() {
		if m.UTF8 != (m.ID == "utf8-1") {
			t.Errorf("message is %+v, want UTF8 only for utf8-1", m)
		}
	}
	old := mailtest.New(t, mailtest.Options{Without: []string{"SMTPUTF8"}})
	for i, r := range deliver(t.Context(), channel(t, old, "", "", nil), international) {
		if (i == 1) != (r.Verdict == notify.Permanent && strings.Contains(r.Reason, "SMTPUTF8")) ||
			(i != 1 && r.Verdict != notify.Accepted) {
			t.Errorf("message %d: %+v", i, r)
		}
	}
	for _, s := range []*mailtest.Sink{sink, modern, old} {
		if v := s.Violations(); len(v) > 0 {
			t.Errorf("protocol violations are %v, want none", v)
		}
	}
}

func TestTLSAndAuth(t *testing.T) {
	t.Parallel()
	const password = "s3cret/pässword@"
	users := map[string]string{"ann": password}
	for _, test := range []struct {
		name    string
		options mailtest.Options
		user    string
		query   string
		trust   bool
		want    string // in the reason; empty: accepted
	}{
		{"implicit TLS", mailtest.Options{TLS: "implicit"}, "", "", true, ""},
		{"implicit TLS of a stranger", mailtest.Options{TLS: "implicit"}, "", "", false, "certificate"},
		{"implicit TLS unchecked", mailtest.Options{TLS: "implicit"}, "", "insecure=true", false, ""},
		{"STARTTLS taken if offered", mailtest.Options{TLS: "starttls"}, "", "", false, ""},
		{"STARTTLS required", mailtest.Options{TLS: "starttls"}, "", "starttls=required", true, ""},
		{"STARTTLS required of a stranger", mailtest.Options{TLS: "starttls"}, "", "starttls=required", false, "certificate"},
		{"STARTTLS required and not offered", mailtest.Options{}, "", "starttls=required", true,
			"STARTTLS is required but not offered"},
		{"STARTTLS never", mailtest.Options{TLS: "starttls"}, "", "starttls=never", true, ""},
		{"PLAIN", mailtest.Options{TLS: "starttls", Users: users, Mechanisms: []string{"PLAIN"}}, "ann", "", true, ""},
		{"LOGIN", mailtest.Options{TLS: "implicit", Users: users, Mechanisms: []string{"LOGIN"}}, "ann", "", true, ""},
		{"CRAM-MD5", mailtest.Options{TLS: "implicit", Users: users, Mechanisms: []string{"CRAM-MD5"}}, "ann", "", true, ""},
		{"chosen", mailtest.Options{TLS: "implicit", Users: users}, "ann", "auth=cram-md5", true, ""},
		{"password to a stranger", mailtest.Options{TLS: "starttls", Users: users}, "ann", "", false, "certificate"},
		{"on this machine in the clear", mailtest.Options{Users: users}, "ann", "", false, ""},
		{"wrong user by PLAIN", mailtest.Options{Users: users, Mechanisms: []string{"PLAIN"}}, "bob", "", true,
			"rejected the user name"},
		{"wrong user by LOGIN", mailtest.Options{Users: users, Mechanisms: []string{"LOGIN"}}, "bob", "", true,
			"rejected the user name"},
		{"not offered", mailtest.Options{Users: users, Mechanisms: []string{"LOGIN"}}, "ann", "auth=plain", true,
			"does not offer"},
		{"none known", mailtest.Options{Users: users, Mechanisms: []string{"GSSAPI"}}, "ann", "", true,
			"no supported authentication mechanism"},
		{"without a login", mailtest.Options{Users: users}, "", "", true, "530"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sink := mailtest.New(t, test.options)
			userinfo := ""
			if test.user != "" {
				userinfo = test.user + ":s3cret%2Fp%C3%A4ssword%40"
			}
			c := channel(t, sink, userinfo, test.query, func(o *mail.Options) {
				if test.trust && test.options.TLS != "" {
					o.TLS = sink.ClientTLS()
				}
			})
			for _, r := range deliver(t.Context(), c, messages("m", 3)) {
				if strings.Contains(r.Reason, "s3cret") || strings.Contains(r.Reason, "AGFubgBz") {
					t.Errorf("the password is in %q", r.Reason)
				}
				if test.want == "" && r.Verdict != notify.Accepted {
					t.Errorf("result is %+v, want accepted", r)
				}
				if test.want != "" && (r.Verdict != notify.Temporary || !strings.Contains(r.Reason, test.want)) {
					t.Errorf("%+v, want %q", r, test.want)
				}
			}
			if v := sink.Violations(); len(v) > 0 {
				t.Errorf("protocol violations are %v, want none", v)
			}
		})
	}
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	good := mail.Options{URL: "smtp://h", Identity: mail.Identity{From: "a@b.example"}}
	for name, change := range map[string]func(*mail.Options){
		"url":    func(o *mail.Options) { o.URL = "http://h" },
		"from":   func(o *mail.Options) { o.Identity.From = "" },
		"dkim":   func(o *mail.Options) { o.DKIM = &mail.DKIM{Selector: "s", Key: []byte("x")} },
		"domain": func(o *mail.Options) { o.Identity.Domain = "a b" },
	} {
		o := good
		change(&o)
		if _, err := mail.NewChannel(o); err == nil {
			t.Errorf("a bad %s is taken", name)
		}
	}
	var seen *smtp.Config
	good.Tune = func(c *smtp.Config) { seen = c }
	if _, err := mail.NewChannel(good); err != nil || seen == nil {
		t.Error(err)
	}
}
