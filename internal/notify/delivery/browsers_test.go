package delivery

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/push"
)

// pushing is a push service: it counts calls by path. /down fails until it is up.
type pushing struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]int
	up    bool
}

func (g *pushing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[r.URL.Path]++
	switch {
	case r.URL.Path == "/gone":
		w.WriteHeader(http.StatusGone)
	case r.URL.Path == "/down" && !g.up:
		g.up = true
		w.WriteHeader(http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}

// browsing returns a world with the real channel, whose kinds travel by push.
func browsing(t *testing.T, d *db.DB, c notify.Channels, rule *notify.DigestRule) (*world, *pushing) {
	t.Helper()
	g := &pushing{calls: map[string]int{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	keys, err := push.NewKeys(bytes.Repeat([]byte{7}, 32), "ops@example.com", nil)
	testkit.Must(t, err)
	w := newWorld(t, setup{db: d, people: newPeople(4), change: func(o *Options) {
		o.Patience = time.Minute
		o.Schedule = Schedule{First: time.Millisecond, Longest: time.Millisecond}
		channel := push.NewChannel(push.Options{Store: o.Store, Keys: keys,
			Client: outbound.New(outbound.Options{Private: true}), Breaker: failover.Options{Failures: 100}})
		o.More = map[notify.ChannelID]notify.Channel{notify.Push: channel}
	}})
	for _, kind := range []string{"news", "alarm"} {
		ref := notify.KindRef{ClientID: "shop", KindID: kind}
		testkit.Must(t, w.store.SetChannels(t.Context(), ref, c))
		testkit.Must(t, w.store.SetDigestRule(t.Context(), ref, rule))
	}
	return w, g
}

// subscribe stores the browsers of a user.
func (g *pushing) subscribe(t *testing.T, w *world, client, user string, paths ...string) {
	t.Helper()
	keys, err := push.NewKeys(bytes.Repeat([]byte{9}, 32), "", nil) // any key of the curve does
	testkit.Must(t, err)
	for _, path := range paths {
		s := notify.PushSubscription{ID: notify.PushSubscriptionID(client, g.URL+path), Endpoint: g.URL + path,
			Owner:  notify.Owner{ClientID: client, UserID: user},
			P256dh: notify.DecodePushKey(keys.Public()), Auth: make([]byte, 16), Created: time.Now(), Updated: time.Now()}
		testkit.Must(t, s.Check())
		testkit.Must(t, w.store.AddPushSubscription(t.Context(), s))
	}
}

// TestBrowsers sends to users with two browsers, of which one is gone or down for a while, and to recipients without
// any.
func TestBrowsers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, g := browsing(t, d, notify.ChannelsOf(notify.Push), nil)
		users := w.people.order
		g.subscribe(t, w, "shop", users[0], "/phone", "/gone")
		g.subscribe(t, w, "shop", users[1], "/down", "/laptop")
		g.subscribe(t, w, "other", users[2], "/other")
		g.subscribe(t, w, "shop", users[3], "/unwanted")
		w.wishesOf(users[3], notify.Wish{Channels: map[notify.ChannelID]bool{notify.Push: false}})
		w.start()
		members := []notify.Member{{UserID: users[0]}, {UserID: users[1]}, {UserID: users[2]}, {UserID: users[3]},
			{Email: "a@example.com"}}
		send := w.send(func(r *actions.Request) {
			r.Audiences = []notify.Audience{{Type: notify.ToList}}
			r.Members = each(len(members), func(i int) notify.Member { return members[i] })
		})
		if got := w.finish(send); got.Total != 5 || got.Delivered != 2 || got.Undeliverable != 2 || got.Unsubscribed != 1 {
			t.Errorf("counts are %+v", got)
		}
		g.mu.Lock()
		for path, want := range map[string]int{"/phone": 1, "/gone": 1, "/down": 2, "/laptop": 1, "/other": 0,
			"/unwanted": 0} {
			if g.calls[path] != want {
				t.Errorf("%s was called %d times, want %d", path, g.calls[path], want)
			}
		}
		g.mu.Unlock()
		list, err := w.store.MessagesOf(t.Context(), send, -1, 10)
		testkit.Must(t, err)
		reasons := map[string]string{}
		for _, m := range list {
			reasons[m.UserID+m.Email] = m.Reason
		}
		if reasons[users[2]] != reasonNoBrowser || reasons["a@example.com"] != reasonNoBrowsers ||
			!strings.HasPrefix(reasons[users[0]], "accepted by 1 of 2 browsers; not by ") ||
			reasons[users[1]] != "accepted by 2 of 2 browsers" {
			t.Errorf("the reasons are %q", reasons)
		}
		left, err := w.store.PushSubscriptionsOf(t.Context(), users[0])
		if err != nil || len(left) != 1 {
			t.Errorf("the user has %d browsers left, error %v", len(left), err)
		}
	})
}

// TestBrowsersTravel sends by a workflow, mail only if push did not reach the user; and a digest.
func TestBrowsersTravel(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, g := browsing(t, d, notify.ChannelsOf(notify.Push), inDigest(2))
		workflow, err := notify.ParseWorkflow(json.RawMessage(
			`{"steps":[{"channel":"push"},{"channel":"email","if":{"failed":"push"}}]}`))
		testkit.Must(t, err)
		testkit.Must(t, w.store.SetWorkflow(t.Context(), notify.KindRef{ClientID: "shop", KindID: "alarm"}, workflow))
		users := w.people.order
		g.subscribe(t, w, "shop", users[0], "/phone")
		w.start()
		to := func(user, kind string) int64 {
			return w.send(subject("s"), func(r *actions.Request) {
				r.KindID, r.Audiences = kind, []notify.Audience{{Type: notify.ToUser, ID: user}}
			})
		}
		for user, want := range map[string]string{users[0]: "email skipped, push delivered",
			users[1]: "email delivered, push undeliverable"} {
			send := to(user, "alarm")
			w.finish(send)
			states := strings.Split(w.states(send), ", ")
			if len(states) == 2 && states[0] > states[1] {
				states[0], states[1] = states[1], states[0]
			}
			if got := strings.Join(states, ", "); got != want {
				t.Errorf("%s: %s, want %s", user, got, want)
			}
		}
		first := to(users[0], "news")
		w.finish(to(users[0], "news"))
		w.finish(first)
		if got := w.finish(notify.SendOf(w.message(first, 0).Digest)); got.Delivered != 1 {
			t.Errorf("the digest: %+v", got)
		}
	})
}
