package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/outbound"
)

func TestHonoursTheContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service { return newWorld(t, setup{}).Delivery })
}

// Every way a message can go.
func TestMessages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, setup{change: func(o *Options) { o.Metrics = NewMetrics(prometheus.NewRegistry()) }})
	emails := map[string]string{
		"ok": "ok@example.com", "silent": "", "malformed": "not an address", "injection": "a@b>\r\nRCPT TO:<c@d>",
		"left": "left@example.com", "gone-all": "gone-all@example.com", "suppressed": "Suppressed@Example.com",
	}
	for id, email := range emails {
		w.people.emails[id] = email
	}
	off, on := false, true
	news := notify.KindRef{ClientID: "shop", KindID: "news"}
	for user, change := range map[string]notify.PreferenceChange{
		"left":     {Kinds: map[notify.KindRef]bool{news: false, {KindID: "ct"}: false}},
		"gone-all": {Global: &on},
		"ok":       {Global: &off},
	} {
		if err := w.store.ChangePreferences(ctx, user, change); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.Suppress(ctx, notify.Suppression{Email: "suppressed@example.com", Source: "manual"}); err != nil {
		t.Fatal(err)
	}
	says := map[string]func(attempt int) notify.Result{
		"for-good@example.com": func(int) notify.Result {
			return notify.Result{Verdict: notify.Permanent,
				Reason: "554 spam"}
		},
		"no-such@example.com": func(int) notify.Result {
			return notify.Result{Verdict: notify.Permanent, BadAddress: true, Reason: "550 5.1.1 unknown"}
		},
		"always-busy@example.com": func(int) notify.Result {
			return notify.Result{Verdict: notify.Temporary,
				Reason: "451 busy"}
		},
		"busy@example.com": func(attempt int) notify.Result {
			if attempt < 3 {
				return notify.Result{Verdict: notify.Temporary, Reason: "451 busy"}
			}
			return notify.Result{Verdict: notify.Accepted}
		},
	}
	w.post.say = func(o notify.Outgoing) notify.Result {
		if f := says[o.To]; f != nil {
			return f(o.Attempt)
		}
		return notify.Result{Verdict: notify.Accepted}
	}
	critical := func(r *actions.Request) { r.KindID = "alarm" }
	campaign := func(r *actions.Request) {
		r.KindID, r.Campaign = "", &notify.CampaignType{ID: "ct", SenderID: "s", ClientID: "shop"}
	}
	w.start()
	t.Cleanup(func() { // after all of the below
		if got, err := w.store.Suppressed(ctx, []string{"no-such@example.com", "for-good@example.com"}); err != nil ||
			len(got) != 1 || !got["no-such@example.com"] {
			t.Errorf("suppressed are %v, %v", got, err)
		}
		for _, o := range w.post.all() {
			if strings.HasPrefix(o.To, "left") && o.Unsubscribe != "" {
				t.Errorf("critical mail can be unsubscribed from: %+v", o)
			}
		}
	})
	for name, c := range map[string]struct {
		audience notify.AudienceType
		id       string
		change   func(*actions.Request)
		status   notify.Status
		attempts int
		reason   string
	}{
		"delivered":                        {notify.ToUser, "ok", nil, notify.Delivered, 1, ""},
		"to an address":                    {notify.ToEmail, "somebody@example.com", nil, notify.Delivered, 1, ""},
		"unknown user":                     {notify.ToUser, "nobody", nil, notify.Undeliverable, 0, reasonNoUser},
		"no address":                       {notify.ToUser, "silent", nil, notify.Undeliverable, 0, reasonNoAddress},
		"no address, critical":             {notify.ToUser, "silent", critical, notify.Undeliverable, 0, reasonNoAddress},
		"malformed address":                {notify.ToUser, "malformed", nil, notify.Undeliverable, 0, reasonMalformed},
		"malformed address, critical":      {notify.ToUser, "malformed", critical, notify.Undeliverable, 0, reasonMalformed},
		"address with commands":            {notify.ToUser, "injection", critical, notify.Undeliverable, 0, reasonMalformed},
		"unsubscribed from the kind":       {notify.ToUser, "left", nil, notify.Unsubscribed, 0, reasonUnsubscribed},
		"unsubscribed, but it is critical": {notify.ToUser, "left", critical, notify.Delivered, 1, ""},
		"unsubscribed from everything":     {notify.ToUser, "gone-all", nil, notify.Unsubscribed, 0, reasonUnsubscribed},
		"from everything, but critical":    {notify.ToUser, "gone-all", critical, notify.Delivered, 1, ""},
		"campaign":                         {notify.ToUser, "ok", campaign, notify.Delivered, 1, ""},
		"campaign, unsubscribed":           {notify.ToUser, "left", campaign, notify.Unsubscribed, 0, reasonUnsubscribed},
		"suppressed":                       {notify.ToUser, "suppressed", nil, notify.Undeliverable, 0, reasonSuppressed},
		"suppressed, critical": {notify.ToUser, "suppressed", critical, notify.Undeliverable, 0,
			reasonSuppressed},
		"refused for good": {notify.ToEmail, "for-good@example.com", nil, notify.Failed, 1, "554 spam"},
		"no such address": {notify.ToEmail, "no-such@example.com", nil, notify.Failed, 1,
			"550 5.1.1 unknown"},
		"accepted at the third attempt": {notify.ToEmail, "busy@example.com", nil, notify.Delivered, 3, ""},
		"never accepted": {notify.ToEmail, "always-busy@example.com", nil, notify.Failed, 4,
			"given up after the last attempt: 451 busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := []func(*actions.Request){to(c.audience, c.id)}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			send := w.send(changes...)
			w.finish(send)
			m := w.message(send, 0)
			if m.Status != c.status || m.Attempts != c.attempts || m.Reason != c.reason || m.Parked {
				t.Errorf("got %+v", m)
			}
			if c.audience == notify.ToUser && c.status == notify.Delivered && c.attempts > 0 && m.Email != emails[c.id] {
				t.Errorf("the address that was found is not kept: %+v", m)
			}
		})
	}
}

func TestOutgoing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	w.start()
	send := w.send(func(r *actions.Request) { r.Content.ReplyTo = "help@example.com" })
	w.finish(send)
	o := w.post.all()[0]
	token, ok := strings.CutPrefix(o.Unsubscribe, "https://notifications.example.com/unsubscribe/")
	g, err := w.unsub.Open(token)
	granted := actions.Grant{UserID: "user-0000000", Kind: notify.KindRef{ClientID: "shop", KindID: "news"},
		OnlyKind: true}
	if !ok || err != nil || g != granted {
		t.Errorf("unsubscribe by %q: %v %v", o.Unsubscribe, g, err)
	}
	if o.ID != w.ids.Message(o.Number) || o.To != "user0@example.com" || o.ReplyTo != "help@example.com" ||
		o.ClientID != "shop" || o.Attempt != 1 || o.Received.IsZero() {
		t.Errorf("got %+v", o)
	}
	if want := "This message was sent directly to you.\nthe text\n\n-- \nUnsubscribe: " +
		notify.UnsubscribeMark; o.Body.Text != want || o.Body.Subject != "CF Notification: Hello" {
		t.Errorf("body %+v", o.Body)
	}
	anonymous := w.send(to(notify.ToEmail, "x@example.com"))
	w.finish(anonymous)
	token = strings.TrimPrefix(w.post.all()[1].Unsubscribe, "https://notifications.example.com/unsubscribe/")
	if g, err := w.unsub.Open(token); err != nil || g.UserID != "mailto:x@example.com" {
		t.Errorf("an address unsubscribes as %q, %v", g.UserID, err)
	}
}

func TestAddressesUnsubscribe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	w.start()
	news := notify.KindRef{ClientID: "shop", KindID: "news"}
	if err := w.store.ChangePreferences(t.Context(), notify.AddressSubscriber("X@example.com"),
		notify.PreferenceChange{Kinds: map[notify.KindRef]bool{news: false}}); err != nil {
		t.Fatal(err)
	}
	w.finish(w.send(to(notify.ToEmail, "x@Example.com")))
	w.finish(w.send(to(notify.ToEmail, "y@example.com")))
	// Without a kind there is nothing to unsubscribe from.
	w.finish(w.send(to(notify.ToEmail, "x@example.com"), func(r *actions.Request) { r.KindID = "" }))
	var got []string
	for _, o := range w.post.all() {
		got = append(got, o.To+" "+fmt.Sprint(o.Unsubscribe != ""))
	}
	if want := []string{"y@example.com true", "x@example.com false"}; !slices.Equal(got, want) {
		t.Errorf("mailed %q, want %q", got, want)
	}
}

func TestTemplateChoice(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, setup{})
	var now atomic.Int64 // minutes: each send sees fresh templates
	w.options.Now = func() time.Time { return time.Now().Add(time.Duration(now.Load()) * time.Minute) }
	w.renew()
	for _, id := range []string{"asked", "kinds", "clients", "types"} {
		if err := w.store.CreateTemplate(ctx, notify.Template{ID: id, Name: id, Subject: id, Text: "{{.Text}}",
			Updated: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.store.CreateSender(ctx, notify.Sender{ID: "s", ClientID: "shop", Name: "s"}); err != nil {
		t.Fatal(err)
	}
	ct := notify.CampaignType{ID: "ct", SenderID: "s", ClientID: "shop", Name: "ct", TemplateID: "types"}
	if _, err := w.store.CreateCampaignType(ctx, ct); err != nil {
		t.Fatal(err)
	}
	assign := func(a notify.Association, id string) {
		t.Helper()
		if err := w.store.AssignTemplate(ctx, a, id); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(id string) {
		t.Helper()
		if err := w.store.DeleteTemplate(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	subject := func(changes ...func(*actions.Request)) string {
		t.Helper()
		now.Add(1)
		before := len(w.post.all())
		w.finish(w.send(changes...))
		return w.post.all()[before].Body.Subject
	}
	asked := func(r *actions.Request) { r.Template = "asked" }
	campaign := func(r *actions.Request) { r.KindID, r.Campaign = "", &ct }
	check := func(what, want string, changes ...func(*actions.Request)) {
		t.Helper()
		if got := subject(changes...); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("nothing assigned", "CF Notification: Hello")
	assign(notify.Association{ClientID: "shop"}, "clients")
	check("the client's", "clients")
	assign(notify.Association{ClientID: "shop", KindID: "news"}, "kinds")
	check("the kind's", "kinds")
	check("the one asked for", "asked", asked)
	check("the campaign type's", "types", campaign)
	check("the campaign's", "asked", campaign, asked)
	check("the default, asked for", "Hello", campaign, func(r *actions.Request) { r.Template = notify.DefaultTemplate })
	check("changed", "kinds")
	if err := w.store.UpdateTemplate(ctx, notify.Template{ID: "kinds", Name: "kinds", Subject: "changed",
		Text: "{{.Text}}", Updated: time.Now().Add(time.Second)}); err != nil {
		t.Fatal(err)
	}
	check("changed", "changed")
	remove("asked")
	check("the one asked for was deleted", "changed", asked)
	remove("kinds")
	check("the kind's was deleted", "clients")
	remove("clients")
	check("the client's was deleted", "CF Notification: Hello")
	remove("types")
	check("the campaign type's was deleted", "Hello", campaign)
}

// A message that cannot be made is parked, others go on, and it can be replayed.
func TestPoison(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, setup{})
	bad := notify.Template{ID: "bad", Name: "bad", Subject: "{{.Nothing}}", Text: "{{", Updated: time.Now()}
	if err := w.store.CreateTemplate(ctx, bad); err != nil {
		t.Fatal(err)
	}
	w.start()
	poisoned := w.send(func(r *actions.Request) { r.Template = "bad" })
	healthy := w.send(to(notify.ToUser, "user-0000001"))
	w.finish(poisoned)
	w.finish(healthy)
	m := w.message(poisoned, 0)
	if m.Status != notify.Failed || !m.Parked || !strings.Contains(m.Reason, "cannot be rendered") {
		t.Errorf("got %+v", m)
	}
	if m := w.message(healthy, 0); m.Status != notify.Delivered {
		t.Errorf("got %+v", m)
	}
	bad.Subject, bad.Text, bad.Updated = "good now", "{{.Text}}", time.Now().Add(time.Second)
	if err := w.store.UpdateTemplate(ctx, bad); err != nil {
		t.Fatal(err)
	}
	w.contents.mu.Lock()
	clear(w.contents.templates) // as if a moment had passed
	w.contents.mu.Unlock()
	if err := w.store.Replay(ctx, "shop", m.Number); err != nil {
		t.Fatal(err)
	}
	w.Kick()
	w.store.until(t, "the replayed message is delivered", func() bool {
		return w.message(poisoned, 0).
			Status == notify.Delivered
	})
}

// bomb is a channel that panics in the middle of the first batch.
type bomb struct {
	post
	once sync.Once
}

func (b *bomb) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	b.once.Do(func() {
		b.post.Deliver(ctx, batch[:1], done)
		panic("boom")
	})
	b.post.Deliver(ctx, batch, done)
}

func TestChannelPanics(t *testing.T) {
	t.Parallel()
	b := &bomb{}
	w := newWorld(t, setup{channel: b, people: newPeople(50), change: func(o *Options) { o.Log = nil }})
	w.start()
	got := w.finish(w.send(to(notify.ToEveryone, "")))
	if got.Delivered != 50 || len(b.all()) != 50 {
		t.Errorf("%+v, %d sent", got, len(b.all()))
	}
}

// wild is a directory that panics at the first question of each sort.
type wild struct {
	*people
	page, emails sync.Once
}

func (d *wild) Page(ctx context.Context, a notify.Audience, cursor string, limit int) ([]notify.Recipient,
	string, error) {
	d.page.Do(func() { panic("boom") })
	return d.people.Page(ctx, a, cursor, limit)
}

func (d *wild) Emails(ctx context.Context, ids []string) (map[string]string, error) {
	d.emails.Do(func() { panic("boom") })
	return d.people.Emails(ctx, ids)
}

func TestDirectoryPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(50), change: func(o *Options) {
		o.Log, o.Directory = nil, &wild{people: o.Directory.(*people)} //nolint:errcheck,errorlint // it is
	}})
	w.people.withoutEmails = true
	w.start()
	got := w.finish(w.send(to(notify.ToEveryone, ""), func(r *actions.Request) { r.Async = true }))
	if got.Delivered != 50 || len(w.post.all()) != 50 {
		t.Errorf("%+v, %d sent", got, len(w.post.all()))
	}
}

// narrow is a channel that notes how much content it was given at once.
type narrow struct {
	post
	most atomic.Int64
}

func (n *narrow) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	total := 0
	for _, o := range batch {
		total += size(o.Body)
	}
	for most := n.most.Load(); int64(total) > most && !n.most.CompareAndSwap(most, int64(total)); most = n.most.Load() {
	}
	n.post.Deliver(ctx, batch, done)
}

// Bodies of their own are made a few at a time, when they are large.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	n := &narrow{post: post{forget: true}}
	w := newWorld(t, setup{people: newPeople(60), channel: n})
	if err := w.store.CreateTemplate(ctx, notify.Template{ID: "own", Name: "own", Subject: "{{.Subject}}",
		Text: "{{.To}} {{.Text}}"}); err != nil {
		t.Fatal(err)
	}
	w.start()
	const each = 200 << 10
	got := w.finish(w.send(to(notify.ToEveryone, ""), func(r *actions.Request) {
		r.Template, r.Content.Text = "own", strings.Repeat("x", each)
	}))
	if got.Delivered != 60 {
		t.Errorf("counts are %+v, want 60 delivered", got)
	}
	if most := n.most.Load(); most < each || most > manyBytes+2*each {
		t.Errorf("%d bytes at once, want up to %d", most, manyBytes)
	}
}

// A stop in the middle loses and doubles nothing.
func TestStopInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(900)})
	send := w.send(to(notify.ToEveryone, ""))
	for i := range 3 {
		reached := make(chan struct{})
		var once sync.Once
		w.post.say = func(notify.Outgoing) notify.Result {
			if len(w.post.all()) >= (i+1)*200 {
				once.Do(func() { close(reached) })
			}
			return notify.Result{Verdict: notify.Accepted}
		}
		w.start()
		<-reached
		w.Stop()
		w.renew()
	}
	w.start()
	if got := w.finish(send); got.Delivered != 900 || len(w.post.all()) != 900 {
		t.Errorf("%+v, %d sent", got, len(w.post.all()))
	}
	all, err := w.store.MessagesOf(context.Background(), send, -1, 2000)
	if err != nil || len(all) != 900 {
		t.Fatalf("%d messages, %v", len(all), err)
	}
	for _, m := range all {
		if m.Attempts != 1 {
			t.Fatalf("message is %+v, want 1 attempt", m)
		}
	}
}

// A database that fails for a while loses nothing and doubles nothing.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{people: newPeople(1500), change: func(o *Options) { o.Log = nil }})
	away := errors.New("disk on fire")
	var once sync.Once
	w.post.say = func(notify.Outgoing) notify.Result {
		once.Do(func() {
			w.store.failing("Finish", away)
			w.store.failing("Extend", away)
			w.store.failing("Unsubscribed", away)
			time.AfterFunc(300*time.Millisecond, func() {
				for _, m := range []string{"Finish", "Extend", "Unsubscribed"} {
					w.store.failing(m, nil)
				}
			})
		})
		return notify.Result{Verdict: notify.Accepted}
	}
	w.start()
	if got := w.finish(w.send(to(notify.ToEveryone, ""))); got.Delivered != 1500 || len(w.post.all()) != 1500 {
		t.Errorf("%+v, %d sent", got, len(w.post.all()))
	}
}

func TestQueueFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{limit: 5, people: newPeople(6)})
	for range 5 {
		w.send()
	}
	_, err := w.service.Send(context.Background(), actions.Request{
		Client: "shop", KindID: "news", Audiences: []notify.Audience{{Type: notify.ToUser, ID: "u"}},
		Content: notify.Content{Text: "x"},
	})
	if !errors.Is(err, notify.ErrQueueFull) {
		t.Errorf("got %v", err)
	}
	w.start()
	w.store.until(t, "the queue is empty", func() bool {
		n, err := w.store.Waiting(context.Background())
		return err == nil && n == 0
	})
	w.finish(w.send())
	if n := len(w.post.all()); n != 6 {
		t.Errorf("%d messages", n)
	}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, setup{people: newPeople(250), change: func(o *Options) { o.Webhooks.Private, o.Log = true, nil }})
	events := make(chan Event, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var at int64
		header := r.Header.Get(outbound.SignatureHeader)
		if _, err := fmt.Sscanf(header, "t=%d,", &at); err != nil || header != outbound.Sign("hush", time.Unix(at, 0), body) {
			t.Errorf("signature %q", header)
		}
		var call Call
		if err := json.Unmarshal(body, &call); err != nil {
			t.Error(err)
		}
		for _, e := range call.Events {
			events <- e
		}
	}))
	t.Cleanup(server.Close)
	if err := w.store.CreateWebhook(ctx, notify.Webhook{ID: "w", ClientID: "shop", URL: server.URL,
		Secret: "hush"}); err != nil {
		t.Fatal(err)
	}
	// Another one of the same client, which does not respond, delays no other.
	if err := w.store.CreateWebhook(ctx, notify.Webhook{ID: "deaf", ClientID: "shop", URL: deaf(t),
		Secret: "x"}); err != nil {
		t.Fatal(err)
	}
	w.start()
	send := w.send(to(notify.ToEveryone, ""))
	seen := map[string]bool{}
	for len(seen) < 250 {
		e := <-events
		if e.Send != w.ids.Send(send) || e.Status != notify.Delivered || e.KindID != "news" {
			t.Fatalf("event is %+v, want send %s delivered of kind news", e, w.ids.Send(send))
		}
		seen[e.Recipient] = true
	}
}

func TestPurge(t *testing.T) {
	t.Parallel()
	w := newWorld(t, setup{})
	w.start()
	send := w.send()
	w.finish(send)
	w.Purge(context.Background())
	w.message(send, 0)
	w.Delivery.o.Retention = -time.Minute
	w.Purge(context.Background())
	if _, _, err := w.store.Message(context.Background(), notify.MessageNumber(send, 0)); !errors.Is(err,
		notify.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// deaf is the URL of a server that takes connections and says nothing.
func deaf(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "http://" + l.Addr().String()
}
