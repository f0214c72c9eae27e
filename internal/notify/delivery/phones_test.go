package delivery

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/provider"
)

// texting are two services that send texts, at /first and /second. The first one fails.
type texting struct {
	*httptest.Server
	mu    sync.Mutex
	texts map[string][]string // by path
}

func (g *texting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.texts[r.URL.Path] = append(g.texts[r.URL.Path], string(body))
	if r.URL.Path == "/first" {
		w.WriteHeader(http.StatusBadGateway)
	}
}

// TestTexts sends texts to users, to a number of the send, and to recipients without a number. The first provider
// fails, so the second has all, and the timeline says so.
func TestTexts(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		g := &texting{texts: map[string][]string{}}
		g.Server = httptest.NewServer(g)
		t.Cleanup(g.Close)
		all := newPeople(4)
		all.phones = map[string]string{all.order[0]: "+4915100000001", all.order[1]: "+4915100000002"}
		w := newWorld(t, setup{db: d, people: all, change: func(o *Options) {
			o.Patience = time.Minute
			o.More = map[notify.ChannelID]notify.Channel{notify.SMS: provider.NewChannel(notify.SMS, provider.Options{
				Providers: o.Store, Client: outbound.New(outbound.Options{Private: true})})}
		}})
		for name, weight := range map[string]int{"first": 1, "second": 0} {
			if err := w.store.SetProvider(t.Context(), notify.Provider{Owner: "shop", Name: name, Channel: notify.SMS,
				Updated: time.Now(), ProviderDefinition: notify.ProviderDefinition{URL: g.URL + "/" + name, Weight: weight,
					JSON: json.RawMessage(`{"to":"{{phone}}","text":"{{text}}"}`)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: "news"},
			notify.ChannelsOf(notify.SMS)); err != nil {
			t.Fatal(err)
		}
		w.start()
		members := []notify.Member{{UserID: all.order[0]}, {UserID: all.order[1], Phone: "+4915100000009"},
			{UserID: all.order[2]}, {UserID: "nobody"},
			{Email: "a@example.com", Phone: "+4915100000008"}, {Email: "b@example.com"},
			{Email: "+4915100000007", Phone: "+4915100000007"}, {Email: "+4915100000006", Phone: "+4915100000006"}}
		testkit.Must(t, w.store.ChangePreferences(t.Context(), notify.AddressSubscriber("+4915100000006"),
			notify.PreferenceChange{Kinds: map[notify.KindRef]bool{{ClientID: "shop", KindID: "news"}: false}}))
		send := w.send(func(r *actions.Request) {
			r.Audiences = []notify.Audience{{Type: notify.ToList}}
			r.Members = each(len(members), func(i int) notify.Member { return members[i] })
		})
		if got := w.finish(send); got != (notify.Counts{Total: 8, Delivered: 4, Undeliverable: 3, Unsubscribed: 1}) {
			t.Errorf("counts are %+v", got)
		}
		g.mu.Lock()
		texts := slices.Sorted(slices.Values(g.texts["/second"]))
		first := len(g.texts["/first"])
		g.mu.Unlock()
		var want []string
		for _, n := range []string{"1", "7", "8", "9"} {
			want = append(want, fmt.Sprintf(`{"text":"Hello there","to":"+491510000000%s"}`, n))
		}
		for i := range texts {
			if len(texts) != 4 || !strings.Contains(texts[i], strings.Split(want[i], `"to":`)[1]) {
				t.Errorf("the texts are %q", texts)
			}
		}
		if first == 0 {
			t.Error("the first provider was not tried")
		}
		list, err := w.store.MessagesOf(t.Context(), send, -1, 10)
		if err != nil {
			t.Fatal(err)
		}
		reasons := map[string]string{}
		for _, m := range list {
			reasons[m.UserID+m.Email] = m.Reason
			if strings.Contains(m.Reason, "49151000") || m.UserID != "" && m.Email != "" {
				t.Errorf("a number or an address was stored: %+v", m)
			}
		}
		if r := reasons[all.order[0]]; !strings.HasPrefix(r, "accepted by second, after first: 502 Bad Gateway") {
			t.Errorf("the reason of a delivered text is %q", r)
		}
		if reasons[all.order[2]] != reasonNoPhone || reasons["nobody"] != reasonNoUser ||
			reasons["b@example.com"] != reasonPhoneless {
			t.Errorf("the reasons are %q", reasons)
		}
		timeline, err := w.store.Timeline(t.Context(), list[0].Number)
		if err != nil {
			t.Fatal(err)
		}
		events := timeline.Events()
		if last := events[len(events)-1]; last.Name != notify.EventName(notify.Delivered) ||
			!strings.Contains(last.Reason, "second") || last.Attempt != 1 {
			t.Errorf("the timeline ends with %+v", last)
		}
	})
}

// TestTextDigest sees that a digest goes to the number that the latest send gave.
func TestTextDigest(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		texts := &post{}
		w := collecting(t, d, inDigest(2), map[notify.ChannelID]notify.Channel{notify.SMS: texts})
		testkit.Must(t, w.store.SetChannels(t.Context(), notify.KindRef{ClientID: "shop", KindID: "news"},
			notify.ChannelsOf(notify.SMS)))
		w.start()
		var sends []int64
		for _, phone := range []string{"+4915100000001", "+4915100000002"} {
			sends = append(sends, w.send(subject("to "+phone), func(r *actions.Request) {
				r.Audiences = []notify.Audience{{Type: notify.ToList}}
				r.Members = each(1, func(int) notify.Member { return notify.Member{UserID: "ann", Phone: phone} })
			}))
		}
		for _, send := range sends {
			w.finish(send)
		}
		w.finish(notify.SendOf(w.message(sends[0], 0).Digest))
		if all := texts.all(); len(all) != 1 || all[0].To != "+4915100000002" {
			t.Errorf("the texts are %+v", all)
		}
	})
}
