package delivery

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/hook"
	"ingot/internal/notify/outbound"
)

// room is a Slack-compatible receiver, and an app's webhook at another path.
type room struct {
	*httptest.Server
	end chan struct{}

	mu    sync.Mutex
	posts map[string][]map[string]any // by path
}

func newRoom(t *testing.T) *room {
	t.Helper()
	r := &room{posts: map[string][]map[string]any{}, end: make(chan struct{})}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	t.Cleanup(sync.OnceFunc(func() { close(r.end) }))
	return r
}

func (r *room) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, _ := io.ReadAll(req.Body)
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.posts[req.URL.Path] = append(r.posts[req.URL.Path], body)
	n := len(r.posts[req.URL.Path])
	r.mu.Unlock()
	switch req.URL.Path {
	case "/hangs":
		select {
		case <-r.end:
		case <-req.Context().Done():
		}
	case "/busy":
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	case "/gone":
		w.WriteHeader(http.StatusGone)
	}
}

func (r *room) got(path string) []map[string]any {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.posts[path]
}

// withRoom returns a world in which the kind news has the channels webhook and chat, of which some paths of a room are
// the destinations.
func withRoom(t *testing.T, s setup, called, chat string) (*world, *room) {
	t.Helper()
	r := newRoom(t)
	s.change = func(o *Options) {
		o.Patience, o.Schedule.Longest, o.Schedule.Jitter = time.Minute, 2*time.Second, -1
		o.More = map[notify.ChannelID]notify.Channel{}
		for _, id := range []notify.ChannelID{notify.Hook, notify.Chat} {
			o.More[id] = hook.NewChannel(id, hook.Options{Destinations: o.Store, PerClient: 40,
				Client: outbound.New(outbound.Options{Private: true})})
		}
	}
	w := newWorld(t, s)
	for id, path := range map[notify.ChannelID]string{notify.Hook: called, notify.Chat: chat} {
		if err := w.store.SetDestination(t.Context(), notify.Destination{ClientID: "shop", Channel: id, URL: r.URL + path,
			Format: notify.FormatSlack, Updated: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: "news"},
		notify.ChannelsOf(notify.Hook, notify.Chat)); err != nil {
		t.Fatal(err)
	}
	return w, r
}

// TestChatAndWebhook sends to everyone: the webhook gets a message for each user, the chat one.
func TestChatAndWebhook(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, r := withRoom(t, setup{db: d, people: newPeople(120)}, "/app", "/chat")
		w.options.Chunk = 30
		w.renew()
		left := "user-0000001"
		if err := w.store.ChangePreferences(t.Context(), left, notify.PreferenceChange{Kinds: map[notify.KindRef]bool{
			{ClientID: "shop", KindID: "news"}: false,
		}}); err != nil {
			t.Fatal(err)
		}
		w.start()
		send := w.send(to(notify.ToEveryone, ""), func(r *actions.Request) { r.Data = json.RawMessage(`{"order":7}`) })
		if got := w.finish(send); got != (notify.Counts{Total: 121, Delivered: 120, Unsubscribed: 1}) {
			t.Errorf("counts are %+v", got)
		}
		users := map[string]bool{}
		for _, m := range r.got("/app") {
			user := fmt.Sprint(m["recipient"].(map[string]any)["user_id"])
			if users[user] || user == left || m["subject"] != "Hello" || m["kind_id"] != "news" ||
				m["send_id"] != w.ids.Send(send) || fmt.Sprint(m["data"]) != "map[order:7]" {
				t.Errorf("the webhook got %v", m)
			}
			users[user] = true
			link, _ := m["unsubscribe_url"].(string)
			g, err := w.unsub.Open(link[strings.LastIndex(link, "/")+1:])
			if err != nil || g.UserID != user || !g.OnlyKind {
				t.Errorf("the link in a call is for %+v (%v), want the kind only", g, err)
			}
		}
		if len(users) != 119 {
			t.Errorf("the webhook got messages for %d users, want 119", len(users))
		}
		for i := range 121 { // those that had no room at first were not attempted then
			if m := w.message(send, i); m.Attempts > 1 {
				t.Errorf("message %d was attempted %d times: %s", i, m.Attempts, m.Reason)
			}
		}
		posts := r.got("/chat")
		if len(posts) != 1 || !strings.HasPrefix(fmt.Sprint(posts[0]["text"]), "*Hello*\nthe text") {
			t.Errorf("the chat got %v", posts)
		}
	})
}

// TestChatData sees that a chat is shown the data of the send, and that of the only recipient, but of none of many.
func TestChatData(t *testing.T) {
	t.Parallel()
	w, r := withRoom(t, setup{}, "/app", "/chat")
	if err := w.store.CreateTemplate(t.Context(), notify.Template{ID: "t", Name: "t", Subject: "x", Updated: time.Now(),
		Text: `{{.Data.shop}} {{.Data.name}} {{.UserGUID}}`}); err != nil {
		t.Fatal(err)
	}
	w.start()
	for i, tc := range []struct {
		change func(r *actions.Request)
		want   string
	}{
		{func(r *actions.Request) { r.Data = json.RawMessage(`{"shop":"ours","name":"n"}`) }, "*x*\nours n user-0000000"},
		{func(r *actions.Request) {
			r.Audiences = []notify.Audience{{Type: notify.ToList}}
			r.Data = json.RawMessage(`{"shop":"ours"}`)
			r.Members = each(1, func(int) notify.Member {
				return notify.Member{UserID: "user-0000003", Data: json.RawMessage(`{"name":"own"}`)}
			})
		}, "*x*\nours own"},
		{func(r *actions.Request) {
			r.Audiences = []notify.Audience{{Type: notify.ToList}}
			r.Data = json.RawMessage(`{"shop":"ours","name":"all"}`)
			r.Members = each(3, func(i int) notify.Member {
				return notify.Member{Email: fmt.Sprintf("a%d@example.com", i), Data: json.RawMessage(`{"name":"own"}`)}
			})
		}, "*x*\nours all"},
	} {
		send := w.send(tc.change, func(r *actions.Request) { r.Template, r.Content = "t", notify.Content{} })
		if c := w.finish(send); c.Delivered != c.Total {
			t.Fatalf("counts are %+v", c)
		}
		if posts := r.got("/chat"); len(posts) != i+1 || posts[i]["text"] != tc.want {
			t.Errorf("send %d: the chat got %v, want %q", i, posts, tc.want)
		}
	}
}

// TestHangingReceiver sees that a webhook that hangs delays neither mail nor the chat, that a busy chat is asked again
// after the time that it wants, and that one that is gone is not.
func TestHangingReceiver(t *testing.T) {
	t.Parallel()
	w, r := withRoom(t, setup{}, "/hangs", "/busy")
	if err := w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: "news"},
		notify.ChannelsOf(notify.Email, notify.Hook, notify.Chat)); err != nil {
		t.Fatal(err)
	}
	w.start()
	began := time.Now()
	send := w.send()
	w.store.until(t, "mail and chat are delivered", func() bool { return w.counts(send).Delivered == 2 })
	if posts := r.got("/busy"); len(posts) != 2 || time.Since(began) < time.Second {
		t.Errorf("the chat got %d posts after %v", len(posts), time.Since(began))
	}
	if m := w.message(send, 1); m.Channel != notify.Hook || m.Status.Final() {
		t.Errorf("the webhook's message is %+v", m)
	}
	if err := w.store.SetDestination(t.Context(), notify.Destination{ClientID: "shop", Channel: notify.Chat,
		URL: r.URL + "/gone", Updated: time.Now()}); err != nil {
		t.Fatal(err)
	}
	send = w.send()
	w.store.until(t, "the chat has failed", func() bool { return w.counts(send).Failed == 1 })
	if m := w.message(send, 2); !strings.HasPrefix(m.Reason, "410 Gone") || m.Attempts != 1 || len(r.got("/gone")) != 1 {
		t.Errorf("a chat that is gone: %+v", m)
	}
}
