package delivery

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// collecting returns a world in which news are collected.
func collecting(t *testing.T, d *db.DB, r *notify.DigestRule, more map[notify.ChannelID]notify.Channel) *world {
	t.Helper()
	w := newWorld(t, setup{db: d, change: func(o *Options) { o.More = more }})
	for _, kind := range []string{"news", "alarm"} {
		testkit.Must(t, w.store.SetDigestRule(t.Context(), notify.KindRef{ClientID: "shop", KindID: kind}, r))
	}
	return w
}

func inDigest(most int) *notify.DigestRule {
	return &notify.DigestRule{Window: notify.Delay(time.Hour), Max: most}
}

// subject changes the content of a send.
func subject(s string) func(*actions.Request) {
	return func(r *actions.Request) { r.Content.Subject, r.Content.Text = s, "text of "+s }
}

// mails waits for so many mails.
func (w *world) mails(n int) []notify.Outgoing {
	w.t.Helper()
	w.store.until(w.t, fmt.Sprint(n, " mails"), func() bool { return len(w.post.all()) >= n })
	return w.post.all()
}

// TestDigest collects what is sent, and sends it as one message.
func TestDigest(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w := collecting(t, d, inDigest(3), nil)
		w.start()
		var sends []int64
		for _, s := range []string{"a", "b", "<i>c</i>"} {
			sends = append(sends, w.send(subject(s)))
		}
		critical := w.send(subject("alarm"), func(r *actions.Request) { r.KindID = "alarm" })
		soon := w.send(subject("soon"), func(r *actions.Request) { r.ExpiresAt = time.Now().Add(time.Minute) })
		for _, send := range sends {
			if c := w.finish(send); c != (notify.Counts{Total: 1, Digested: 1}) {
				t.Errorf("counts are %+v", c)
			}
		}
		for _, send := range []int64{critical, soon} {
			if c := w.finish(send); c != (notify.Counts{Total: 1, Delivered: 1}) {
				t.Errorf("counts of what is not collected are %+v", c)
			}
		}
		digest := w.message(sends[0], 0).Digest
		w.finish(notify.SendOf(digest))
		all := w.mails(3)
		i := slices.IndexFunc(all, func(o notify.Outgoing) bool { return o.Number == digest })
		if len(all) != 3 || i < 0 {
			t.Fatalf("%d mails, the digest is %d", len(all), i)
		}
		body := all[i].Body
		for _, part := range []struct{ of, want string }{
			{body.Subject, "3 notifications: News"}, {body.Text, "* a ("}, {body.Text, "  text of b"}, {body.Text, "<i>c</i>"},
			{body.HTML, "<b>&lt;i&gt;c&lt;/i&gt;</b>"}, {body.HTML, "text of a"},
		} {
			if !strings.Contains(part.of, part.want) {
				t.Errorf("%q is not in %q", part.want, part.of)
			}
		}
		if all[i].To != "user0@example.com" || all[i].Unsubscribe == "" {
			t.Errorf("the digest is %+v", all[i])
		}
	})
}

// TestDigestKeys collects by a field of the data, for a template that shows the digest, and for a webhook.
func TestDigestKeys(t *testing.T) {
	t.Parallel()
	r := inDigest(2)
	r.Key, r.Channels = "thread.id", []notify.ChannelID{notify.Email, notify.Hook}
	hook := &post{}
	w := collecting(t, nil, r, map[notify.ChannelID]notify.Channel{notify.Hook: hook})
	testkit.Must(t, w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: "news"},
		notify.ChannelsOf(notify.Email, notify.Hook)))
	testkit.Must(t, w.store.CreateTemplate(t.Context(), notify.Template{ID: "t", Name: "t",
		Subject: "{{.Digest.Count}} in it", Text: "{{range .Digest.Items}}{{.Subject}}={{.Data.n}} {{date \"2006\" .At}};" +
			"{{end}}{{if .Digest.More}}more{{end}}"}))
	testkit.Must(t, w.store.AssignTemplate(t.Context(), notify.Association{ClientID: "shop", KindID: "news"}, "t"))
	w.start()
	var last int64
	for i, id := range []string{`"x"`, `"y"`, `7`, `"x"`, `"y"`, `7`, `"alone"`} {
		last = w.send(subject(fmt.Sprint("s", i)), func(r *actions.Request) {
			r.Data = json.RawMessage(fmt.Sprintf(`{"thread":{"id":%s},"n":%d}`, id, i))
		})
	}
	var got []string
	year := time.Now().UTC().Format(" 2006;")
	for _, m := range w.mails(3) {
		got = append(got, strings.ReplaceAll(m.Body.Subject+": "+m.Body.Text, year, ";"))
	}
	slices.Sort(got)
	if want := []string{"2 in it: s0=0;s3=3;", "2 in it: s1=1;s4=4;", "2 in it: s2=2;s5=5;"}; !slices.Equal(got, want) {
		t.Errorf("mails are %q, want %q", got, want)
	}
	w.store.until(t, "the webhook is called", func() bool { return len(hook.all()) >= 3 })
	data, err := json.Marshal(hook.all()[0].Data)
	testkit.Must(t, err)
	if !strings.Contains(string(data), `{"digest":{"Count":2,"Items":[{"At":`) {
		t.Errorf("the webhook gets %s", data)
	}
	if m := w.message(last, 0); m.Status != notify.Queued || !m.Collected {
		t.Errorf("the last one is %+v", m)
	}
}

// TestDigestUnwanted sees that what a user does not want is in no digest, and that a digest is not sent to those who
// unsubscribed, were suppressed or are gone when it ends.
func TestDigestUnwanted(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Now())
	w := newWorld(t, setup{now: clock.Now, change: func(o *Options) { o.Now = clock.Now }})
	news := notify.KindRef{ClientID: "shop", KindID: "news"}
	testkit.Must(t, w.store.SetDigestRule(t.Context(), news, inDigest(50)))
	w.start()
	unsubscribe := func(user string) {
		t.Helper()
		testkit.Must(t, w.store.ChangePreferences(t.Context(), user, notify.PreferenceChange{
			Kinds: map[notify.KindRef]bool{news: false}}))
	}
	collect := func(user string) int64 {
		t.Helper()
		send := w.send(to(notify.ToUser, user))
		w.store.until(t, "it is collected", func() bool { return w.message(send, 0).Collected })
		return send
	}
	unsubscribe("user-0000000")
	if c := w.finish(w.send()); c != (notify.Counts{Total: 1, Unsubscribed: 1}) {
		t.Errorf("counts are %+v", c)
	}
	wants := map[string]notify.Status{"user-0000001": notify.Unsubscribed, "user-0000002": notify.Undeliverable,
		"nobody": notify.Undeliverable, "user-0000003": notify.Delivered}
	sends := map[string]int64{}
	for user := range wants {
		sends[user] = collect(user)
	}
	unsubscribe("user-0000001")
	testkit.Must(t, w.store.Suppress(t.Context(), notify.Suppression{Email: "user2@example.com", Created: time.Now()}))
	clock.Advance(time.Hour)
	collect("user-0000004") // it looks for digests that are due
	for user, want := range wants {
		w.store.until(t, "the digest of "+user+" ended", func() bool {
			m := w.message(sends[user], 0)
			if m.Status != notify.Digested {
				return false
			}
			m, err := notify.Followed(t.Context(), w.store, m)
			testkit.Must(t, err)
			if m.Status.Final() && m.Status != want {
				t.Fatalf("%s: %s, want %s", user, m.Status, want)
			}
			return m.Status.Final()
		})
	}
}

// TestDigestWindow ends digests when their time has come: one with a single entry, which is as if it were not
// collected, and one of before a restart.
func TestDigestWindow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		r := &notify.DigestRule{Window: notify.Delay(200 * time.Millisecond), Max: 50}
		w := collecting(t, d, r, nil)
		w.start()
		first := w.send(subject("alone"))
		if c := w.finish(first); c.Digested != 1 {
			t.Errorf("counts are %+v", c)
		}
		digest := w.message(first, 0).Digest
		w.finish(notify.SendOf(digest))
		body := w.mails(1)[0].Body
		if !strings.Contains(body.Subject, "alone") || !strings.Contains(body.Text, "text of alone") {
			t.Errorf("the digest of one is %+v", body)
		}
		second := w.send(subject("later"))
		w.store.until(t, "it is collected", func() bool {
			return w.message(second, 0).Status != notify.Queued ||
				w.message(second, 0).Collected
		})
		w.Stop()
		w.renew()
		w.start()
		w.finish(second)
		w.mails(2)
	})
}
