package delivery

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/inbox"
	"ingot/internal/notify/mail/mailtest"
)

// withInbox returns a world in which the kind news has both channels.
func withInbox(t *testing.T, s setup) (*world, *post) {
	t.Helper()
	stored := &post{}
	s.change = func(o *Options) { o.More = map[notify.ChannelID]notify.Channel{notify.Inbox: stored} }
	w := newWorld(t, s)
	for _, kind := range []string{"news", "alarm"} {
		if err := w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: kind},
			notify.ChannelsOf(notify.Email, notify.Inbox)); err != nil {
			t.Fatal(err)
		}
	}
	return w, stored
}

// hanging is a mail server that answers nothing until the test ends.
type hanging struct{ end chan struct{} }

func (h hanging) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	select {
	case <-h.end:
	case <-ctx.Done():
	}
	for i := range batch {
		done(i, notify.Result{Verdict: notify.Temporary, Reason: "stopped"})
	}
}

// TestHangingMailDelaysNoInbox sends more than may be in flight while the mail server hangs.
func TestHangingMailDelaysNoInbox(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, stored := withInbox(t, setup{db: d, people: newPeople(300), channel: hanging{make(chan struct{})}})
		w.options.Workers, w.options.Batch = 2, 50
		w.renew()
		w.start()
		send := w.send(to(notify.ToEveryone, ""))
		w.store.until(t, "all inboxes have it", func() bool { return w.counts(send).Delivered == 300 })
		for _, o := range stored.all() {
			if o.UserID == "" || o.KindID != "news" || o.Body.Subject != "Hello" {
				t.Fatalf("an inbox got %+v", o)
			}
		}
	})
}

// TestInboxPreferences sees who gets what is not mailed: neither an unsubscribed user nor an address has it, but one
// whose address is suppressed, has none or cannot be looked up.
func TestInboxPreferences(t *testing.T) {
	t.Parallel()
	w, stored := withInbox(t, setup{})
	ctx := t.Context()
	left, silent := "user-0000001", "user-0000002"
	if err := w.store.ChangePreferences(ctx, left, notify.PreferenceChange{Kinds: map[notify.KindRef]bool{
		{ClientID: "shop", KindID: "news"}: false,
	}}); err != nil {
		t.Fatal(err)
	}
	emails, err := w.people.Emails(ctx, []string{silent})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Suppress(ctx, notify.Suppression{Email: emails[silent], Source: "manual"}); err != nil {
		t.Fatal(err)
	}
	w.start()
	for _, tc := range []struct {
		kind, user string
		audience   notify.AudienceType
		want       notify.Counts
	}{
		{"news", "user-0000000", notify.ToUser, notify.Counts{Total: 2, Delivered: 2}},
		{"news", left, notify.ToUser, notify.Counts{Total: 2, Unsubscribed: 2}},
		{"alarm", left, notify.ToUser, notify.Counts{Total: 2, Delivered: 2}},
		{"news", silent, notify.ToUser, notify.Counts{Total: 2, Delivered: 1, Undeliverable: 1}},
		{"news", "unknown", notify.ToUser, notify.Counts{Total: 2, Delivered: 1, Undeliverable: 1}},
		{"news", "a@example.com", notify.ToEmail, notify.Counts{Total: 1, Delivered: 1}},
	} {
		before := len(stored.all())
		got := w.finish(w.send(to(tc.audience, tc.user), func(r *actions.Request) { r.KindID = tc.kind }))
		if got != tc.want {
			t.Errorf("%s to %s: %+v, want %+v", tc.kind, tc.user, got, tc.want)
		}
		arrived := 0
		if tc.want.Unsubscribed == 0 && tc.audience == notify.ToUser {
			arrived = 1
		}
		if n := len(stored.all()) - before; n != arrived {
			t.Errorf("%s to %s: %d in the inbox, want %d", tc.kind, tc.user, n, arrived)
		}
	}
	if err := w.store.SetChannels(ctx, notify.KindRef{ClientID: "shop", KindID: "news"},
		notify.ChannelsOf(notify.Inbox)); err != nil {
		t.Fatal(err)
	}
	send := w.send(to(notify.ToEmail, "a@example.com"))
	if got := w.finish(send); got != (notify.Counts{Total: 1, Undeliverable: 1}) ||
		w.message(send, 0).Reason != reasonNoInbox {
		t.Errorf("an address without an inbox: %+v %s", got, w.message(send, 0).Reason)
	}
}

// TestKillWhileStoring kills the server with SIGKILL while it stores notifications: everyone has each once.
func TestKillWhileStoring(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			const users, sends = 400, 4
			ctx := t.Context()
			sink := mailtest.New(t, mailtest.Options{})
			v := victim{Database: dbtest.URL(t, dialect), Key: seal.NewKey(), Dir: t.TempDir(), Users: users,
				SMTP: sink.URL("", "")}
			d, store, err := v.open(ctx)
			testkit.Must(t, err)
			for range sends {
				_, _, err := store.Accept(ctx, notify.NewSend{Send: notify.Send{ClientID: "shop", KindID: "news",
					Channels: notify.ChannelsOf(notify.Inbox), Audiences: []notify.Audience{{Type: notify.ToEveryone}},
					Received: time.Now(), Content: notify.Content{Subject: "Hello", Text: "text"}}})
				testkit.Must(t, err)
			}
			for range 3 {
				if !store.Shared() {
					testkit.Must(t, d.Close()) // it belongs to one process
				}
				cmd := v.spawn(t)
				moment := time.Duration(rand.IntN(400)) * time.Millisecond
				<-time.After(moment) // any moment will do
				testkit.Must(t, cmd.Process.Kill())
				cmd.Wait() //nolint:errcheck // it was killed
				if !store.Shared() {
					d, store, err = v.open(ctx)
					testkit.Must(t, err)
				}
			}
			defer d.Close()
			last := New(Options{Store: store, Directory: newPeople(users), Channel: &post{}, IDs: testIDs(t), Dir: v.Dir,
				More: map[notify.ChannelID]notify.Channel{notify.Inbox: inbox.NewChannel(store, inbox.NewHub(inbox.Options{
					Store: store}))}})
			testkit.Must(t, last.Start(ctx))
			testkit.Eventually(t, "all sends are finished", func() bool {
				list, err := store.ListSends(ctx, notify.SendQuery{All: true, Limit: sends})
				testkit.Must(t, err)
				for _, s := range list {
					if s.Finished.IsZero() {
						return false
					}
				}
				return true
			})
			last.Stop()
			for _, u := range newPeople(users).order {
				state, _, err := store.Inbox(ctx, notify.Owner{ClientID: "shop", UserID: u}, 0, 0)
				testkit.Must(t, err)
				if state.Unread != sends || state.Change != sends {
					t.Errorf("%s has %d notifications after %d changes, want %d", u, state.Unread, state.Change, sends)
				}
			}
		})
	}
}
