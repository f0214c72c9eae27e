package delivery

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// wishing returns a world in which both kinds have these channels, and the posts of the channels.
func wishing(t *testing.T, d *db.DB, c notify.Channels) (*world, map[notify.ChannelID]*post) {
	t.Helper()
	posts := map[notify.ChannelID]*post{notify.Inbox: {}, notify.Hook: {}, notify.Chat: {}}
	w := newWorld(t, setup{db: d, change: func(o *Options) {
		o.More = map[notify.ChannelID]notify.Channel{}
		for id, p := range posts {
			o.More[id] = p
		}
	}})
	posts[notify.Email] = w.post
	for _, kind := range []string{"news", "alarm"} {
		testkit.Must(t, w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: kind}, c))
	}
	return w, posts
}

// wishesOf turns channels of both kinds off for a user.
func (w *world) wishesOf(user string, wish notify.Wish) {
	w.t.Helper()
	testkit.Must(w.t, w.store.ChangePreferences(w.t.Context(), user, notify.PreferenceChange{
		Wishes: map[notify.KindRef]notify.Wish{
			{ClientID: "shop", KindID: "news"}: wish, {ClientID: "shop", KindID: "alarm"}: wish,
		}}))
}

// TestCriticalOverrides sends kinds that are critical or not, by each set of channels, to users who turned off any
// set of them, unsubscribed from the kind or from everything, or whose address is suppressed. Critical ones arrive
// regardless of all but the suppression, which is about the address.
func TestCriticalOverrides(t *testing.T) {
	t.Parallel()
	personal := []notify.ChannelID{notify.Email, notify.Inbox, notify.Hook}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, posts := wishing(t, d, 0)
		type who struct {
			name               string
			off                notify.Unwanted
			global, suppressed bool
		}
		var users []who
		sets := []notify.Unwanted{notify.UnwantedAll}
		for bits := range notify.Unwanted(1 << len(personal)) {
			sets = append(sets, bits)
		}
		no, all := false, true
		for _, off := range sets {
			for _, flags := range []int{0, 1, 2, 3} {
				u := who{fmt.Sprintf("u-%d-%d", off, flags), off, flags&1 != 0, flags&2 != 0}
				users = append(users, u)
				address := u.name + "@example.com"
				w.people.emails[u.name] = address
				wish := notify.Wish{Channels: map[notify.ChannelID]bool{}}
				for _, id := range personal {
					if off.Has(id) {
						wish.Channels[id] = false
					}
				}
				if off == notify.UnwantedAll {
					wish = notify.Wish{Subscribe: &no}
				}
				w.wishesOf(u.name, wish)
				if u.global {
					testkit.Must(t, w.store.ChangePreferences(t.Context(), u.name, notify.PreferenceChange{Global: &all}))
				}
				if u.suppressed {
					testkit.Must(t, w.store.Suppress(t.Context(), notify.Suppression{Email: address, Source: "manual"}))
				}
			}
		}
		w.start()
		for bits := 1; bits < 1<<len(personal); bits++ {
			var ids []notify.ChannelID
			for i, id := range personal {
				if bits&(1<<i) != 0 {
					ids = append(ids, id)
				}
			}
			channels := notify.ChannelsOf(ids...)
			for _, kind := range []string{"news", "alarm"} {
				testkit.Must(t, w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: kind}, channels))
				send := w.send(func(r *actions.Request) {
					r.KindID, r.Audiences = kind, nil
					r.Members = func(yield func(notify.Member, error) bool) {
						for _, u := range users {
							if !yield(notify.Member{UserID: u.name}, nil) {
								return
							}
						}
					}
				})
				w.finish(send)
				arrived := map[string]bool{}
				for id, p := range posts {
					for _, o := range p.all() {
						if notify.SendOf(o.Number) == send {
							arrived[o.UserID+" "+id.String()] = true
						}
					}
				}
				list, err := w.store.MessagesOf(t.Context(), send, -1, 1000)
				testkit.Must(t, err)
				if len(list) != len(users)*len(ids) {
					t.Fatalf("%d messages, want %d", len(list), len(users)*len(ids))
				}
				for i, m := range list {
					u := users[i/len(ids)]
					left := 0
					for _, id := range ids {
						if !u.off.Has(id) {
							left++
						}
					}
					want := notify.Delivered
					switch {
					case kind == "news" && (u.global || left == 0):
						want = notify.Unsubscribed
					case kind == "news" && u.off.Has(m.Channel):
						want = notify.Skipped
					case m.Channel == notify.Email && u.suppressed:
						want = notify.Undeliverable
					}
					if m.UserID != u.name || m.Status != want || arrived[u.name+" "+m.Channel.String()] != (want == notify.Delivered) {
						t.Errorf("%s by %s of %v to %+v is %s (%s), want %s", kind, m.Channel, channels.Names(), u, m.Status,
							m.Reason, want)
					}
				}
			}
		}
	})
}

// TestUnwantedSteps follows workflows with steps on channels that the user turned off: the others are taken.
func TestUnwantedSteps(t *testing.T) {
	t.Parallel()
	const user, address = "user-0000000", "a@example.com"
	const fallback = `{"steps":[{"channel":"email"},{"channel":"inbox","if":{"failed":"email"}}]}`
	mail, inbox := notify.UnwantedOn(notify.Email), notify.UnwantedOn(notify.Inbox)
	for _, tc := range []struct {
		name, workflow, kind, to, want string
		off                            notify.Unwanted
	}{
		{"all wanted", fallback, "news", user, "email delivered, inbox skipped", 0},
		{"instead of mail", fallback, "news", user, "email skipped, inbox delivered", mail},
		{"no fallback", fallback, "news", user, "email delivered, inbox skipped", inbox},
		{"neither", fallback, "news", user, "email unsubscribed, inbox unsubscribed", mail | inbox},
		{"unsubscribed", fallback, "news", user, "email unsubscribed, inbox unsubscribed", notify.UnwantedAll},
		{"critical", fallback, "alarm", user, "email delivered, inbox skipped", notify.UnwantedAll},
		{"reminder only", `{"steps":[{"channel":"inbox"},{"channel":"email","after":"1ms","if":{"unread":"inbox"}}]}`, "news",
			user, "email delivered, inbox skipped", inbox},
		{"after mail", `{"steps":[{"channel":"email"},{"channel":"inbox","if":{"delivered":"email"}}]}`, "news", user,
			"email skipped, inbox skipped", mail},
		{"skipped by the workflow", `{"steps":[{"channel":"email","if":{"critical":true}},` +
			`{"channel":"inbox","if":{"failed":"email"}}]}`, "news", user, "email skipped, inbox skipped", 0},
		{"only a chat is left", `{"steps":[{"channel":"email"},{"channel":"chat"}]}`, "news", user,
			"email unsubscribed, chat delivered", mail},
		{"an address", fallback, "news", address, "email unsubscribed", mail},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, _ := traveling(t, nil, tc.workflow, &post{})
			wish := notify.Wish{Channels: map[notify.ChannelID]bool{}}
			for _, id := range []notify.ChannelID{notify.Email, notify.Inbox} {
				wish.Channels[id] = !tc.off.Has(id)
			}
			if tc.off == notify.UnwantedAll {
				wish = notify.Wish{Subscribe: new(bool)}
			}
			subscriber, audience := tc.to, to(notify.ToUser, tc.to)
			if strings.Contains(tc.to, "@") {
				subscriber, audience = notify.AddressSubscriber(tc.to), to(notify.ToEmail, tc.to)
			}
			w.wishesOf(subscriber, wish)
			w.start()
			send := w.send(audience, func(r *actions.Request) { r.KindID = tc.kind })
			w.finish(send)
			if got := w.states(send); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestUnwantedMeanwhile turns a channel off while its step waits: what counts is the wish when it is due.
func TestUnwantedMeanwhile(t *testing.T) {
	t.Parallel()
	w, _ := traveling(t, nil, `{"steps":[{"channel":"inbox"},{"channel":"email","after":"1ms","if":{"unread":"inbox"}}]}`,
		&post{})
	decide := make(chan struct{})
	w.options.Store = undecidedStore{w.store, decide}
	w.renew()
	w.start()
	send := w.send()
	w.store.until(t, "the inbox has it", func() bool { return w.counts(send).Delivered == 1 })
	w.wishesOf("user-0000000", notify.Wish{Channels: map[notify.ChannelID]bool{notify.Email: false}})
	close(decide)
	w.finish(send)
	if got := w.message(send, 0); got.Status != notify.Skipped || got.Reason != reasonUnwanted {
		t.Errorf("the step by %s is %s: %s", got.Channel, got.Status, got.Reason)
	}
}
