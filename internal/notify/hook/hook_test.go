package hook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/channeltest"
	"ingot/internal/notify/hook"
	"ingot/internal/notify/outbound"
)

// destinations has the same destination for all clients, unless they have their own.
type destinations struct {
	all notify.Destination
	of  map[string]string // URLs
}

func (d destinations) Destination(_ context.Context, client string, c notify.ChannelID) (notify.Destination, error) {
	to := d.all
	to.Channel, to.ClientID = c, client
	if address, own := d.of[client]; own {
		to.URL = address
	} else if to.URL != "" {
		to.URL += fmt.Sprintf("/%x", client)
	}
	if to.URL == "" {
		return to, fmt.Errorf("%s: %w", client, notify.ErrNotFound)
	}
	return to, nil
}

// receiver takes calls as a chat or an app would.
type receiver struct {
	*httptest.Server
	// answer is called for each call, if it is not nil; it reports whether the call was answered.
	answer func(w http.ResponseWriter, r *http.Request, body []byte) bool

	mu       sync.Mutex
	hangs    chan struct{} // open while it hangs
	got      map[string]int
	bodies   []string
	headers  []http.Header
	settled  func(string) bool
	most     int               // how many of a client may be unsettled
	clients  map[string]string // of messages, as paths
	problems []string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{got: map[string]int{}, clients: map[string]string{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() {
		r.hang(false)
		r.Close()
	})
	return r
}

func (r *receiver) hang(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case on:
		r.hangs = make(chan struct{})
	case r.hangs != nil:
		close(r.hangs)
		r.hangs = nil
	}
}

// idOf finds the id of a message: in JSON for a webhook, in the text of a chat by the test.
func idOf(body []byte) string {
	var m struct{ ID, Text string }
	_ = json.Unmarshal(body, &m)
	if m.ID != "" {
		return m.ID
	}
	_, id, _ := strings.Cut(m.Text, "id:")
	return id
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	hangs := r.hangs
	r.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-req.Context().Done():
		}
		return
	}
	if r.answer != nil && r.answer(w, req, body) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	open := 0
	for id := range r.got {
		if r.settled != nil && r.clients[id] == req.URL.Path && !r.settled(id) {
			open++
		}
	}
	if r.settled != nil && open > r.most {
		r.problems = append(r.problems, fmt.Sprintf("%d messages were accepted and not recorded", open))
	}
	r.got[idOf(body)]++
	r.clients[idOf(body)] = req.URL.Path
	r.bodies = append(r.bodies, string(body))
	r.headers = append(r.headers, req.Header)
}

func (r *receiver) received() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := map[string]int{}
	for id, n := range r.got {
		got[id] = n
	}
	return got
}

func (r *receiver) last(t *testing.T) (body string, h http.Header) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bodies) == 0 {
		t.Fatal("nothing was received")
	}
	return r.bodies[len(r.bodies)-1], r.headers[len(r.headers)-1]
}

func client(timeout time.Duration) *outbound.Client {
	return outbound.New(outbound.Options{Private: true, Timeout: timeout})
}

// marked adds the ids of messages to their texts, which is all that a chat gets.
type marked struct{ notify.Channel }

func (m marked) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	own := make([]notify.Outgoing, len(batch))
	for i, o := range batch {
		b := *o.Body
		b.Text += " id:" + o.ID
		o.Body = &b
		own[i] = o
	}
	m.Channel.Deliver(ctx, own, done)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for id, most := range map[notify.ChannelID]int{notify.Hook: 8, notify.Chat: 1} {
		t.Run(id.String(), func(t *testing.T) {
			t.Parallel()
			channeltest.Run(t, func(t *testing.T, terms channeltest.Terms) channeltest.Setup {
				r := newReceiver(t)
				r.settled, r.most = terms.Settled, most
				var c notify.Channel = hook.NewChannel(id, hook.Options{Client: client(0), PerClient: 1000,
					Grace: terms.Grace, Destinations: destinations{all: notify.Destination{URL: r.URL}}})
				s := channeltest.Setup{Channel: c, Received: r.received, Hang: r.hang, Users: true,
					Violations: func() []string {
						r.mu.Lock()
						defer r.mu.Unlock()
						return r.problems
					}}
				if id == notify.Chat {
					s.Channel, s.Anyone = marked{c}, true
				}
				return s
			})
		})
	}
}

// deliver returns the results of messages.
func deliver(t *testing.T, c notify.Channel, all ...notify.Outgoing) []notify.Result {
	t.Helper()
	results := make([]notify.Result, len(all))
	c.Deliver(t.Context(), all, func(i int, r notify.Result) { results[i] = r })
	return results
}

func messages(client string, n int) []notify.Outgoing {
	all := make([]notify.Outgoing, n)
	for i := range all {
		all[i] = notify.Outgoing{ID: fmt.Sprint(client, "-", i), SendID: "send-1", ClientID: client, KindID: "news",
			Attempt: 1, UserID: "ann", To: "ann@example.com", Received: time.Unix(1_900_000_000, 0),
			Unsubscribe: "https://u.example.com/x",
			Data:        map[string]any{"order": 7}, Body: &notify.Body{Subject: "Hi", Text: "Stop: " + notify.UnsubscribeMark,
				HTML: "<p>" + notify.UnsubscribeMark + "</p>"}}
	}
	return all
}

// TestWebhook sees what a webhook gets, and that it is signed as the calls with results are.
func TestWebhook(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	c := hook.NewChannel(notify.Hook, hook.Options{Client: client(0), Destinations: destinations{
		all: notify.Destination{URL: r.URL, Secret: "0123456789abcdef"}}})
	if got := deliver(t, c, messages("shop", 1)...); got[0].Verdict != notify.Accepted {
		t.Fatalf("%+v", got)
	}
	body, h := r.last(t)
	want := `{"id":"shop-0","send_id":"send-1","client_id":"shop","kind_id":"news",` +
		`"recipient":{"user_id":"ann","email":"ann@example.com"},"subject":"Hi","text":"Stop: https://u.example.com/x",` +
		`"html":"\u003cp\u003ehttps://u.example.com/x\u003c/p\u003e","data":{"order":7},` +
		`"unsubscribe_url":"https://u.example.com/x","attempt":1,"created_at":"2030-03-17T17:46:40Z"}`
	if body != want {
		t.Errorf("got %s\nwant %s", body, want)
	}
	var at int64
	header := h.Get(outbound.SignatureHeader)
	if _, err := fmt.Sscanf(header, "t=%d,", &at); err != nil ||
		header != outbound.Sign("0123456789abcdef", time.Unix(at, 0), []byte(body)) || h.Get("Idempotency-Key") != "shop-0" {
		t.Errorf("headers are %v", h)
	}
}

// TestFormats sees what chats get. Nothing in a message mentions people, or is markup of another kind.
func TestFormats(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	long := strings.Repeat("ü", 20_000)
	for _, tc := range []struct {
		format string
		body   notify.Body
		want   string // a part of the body
	}{
		{"", notify.Body{Subject: "Hi", Text: "a & b\r\n"}, `{"text":"*Hi*\na \u0026amp; b"}`},
		{"slack", notify.Body{Text: "<!channel> @here <https://evil.example|click> @All @alley"},
			`{"text":"\u0026lt;!channel\u0026gt; @` + "\u200b" + `here \u0026lt;https://evil.example|click\u0026gt; @` + "\u200b" +
				`All @alley"}`},
		{"slack", notify.Body{HTML: "<script>x</script><p>One</p>"}, `{"text":"One"}`},
		{"slack", notify.Body{}, `{"text":"–"}`},
		{"slack", notify.Body{Subject: "a\r\nb\x00", Text: "\xff\x1b[31m"}, `"text":"*a  b*\n�[31m"`},
		{"discord", notify.Body{Subject: "Hi", Text: "@everyone"},
			`{"allowed_mentions":{"parse":[]},"content":"**Hi**\n@everyone"}`},
		{"teams", notify.Body{Subject: "Hi", Text: "[a](https://evil.example)\n\nb"},
			`"body":[{"inlines":[{"text":"Hi","type":"TextRun","weight":"Bolder"}],"type":"RichTextBlock"},` +
				`{"inlines":[{"text":"[a](https://evil.example)","type":"TextRun"}],"type":"RichTextBlock"},` +
				`{"inlines":[{"text":"b","type":"TextRun"}],"type":"RichTextBlock"}]`},
		{"slack", notify.Body{Subject: long, Text: long}, "ü…*"},
		{"discord", notify.Body{Subject: long, Text: long}, "ü…**"},
		{"teams", notify.Body{Subject: long, Text: strings.Repeat("x\n", 5000)}, `"text":"…"`},
	} {
		c := hook.NewChannel(notify.Chat, hook.Options{Client: client(0), Destinations: destinations{
			all: notify.Destination{URL: r.URL, Format: tc.format}}})
		got := deliver(t, c, notify.Outgoing{ID: "m", ClientID: "shop", Body: &tc.body})
		if got[0].Verdict != notify.Accepted {
			t.Fatalf("%s: %+v", tc.format, got)
		}
		body, h := r.last(t)
		if !strings.Contains(body, tc.want) || len(body) > 30_000 || h.Get(outbound.SignatureHeader) != "" {
			t.Errorf("%s: got %.2000s\nwant %s", tc.format, body, tc.want)
		}
		var shown struct{ Content, Text string }
		if err := json.Unmarshal([]byte(body), &shown); err != nil || len([]rune(shown.Content)) > 2000 ||
			len([]rune(shown.Text)) > 4100 {
			t.Errorf("%s: %d and %d characters, %v", tc.format, len(shown.Content), len(shown.Text), err)
		}
	}
}

// TestAnswers sees what answers of receivers mean.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		channel notify.ChannelID
		status  int
		after   string
		want    notify.Result
	}{
		{notify.Hook, 204, "", notify.Result{Verdict: notify.Accepted}},
		{notify.Hook, 404, "", notify.Result{Verdict: notify.Temporary, Reason: "404 Not Found: why"}},
		{notify.Chat, 404, "", notify.Result{Verdict: notify.Permanent, Reason: "404 Not Found: why"}},
		{notify.Chat, 400, "", notify.Result{Verdict: notify.Permanent, Reason: "400 Bad Request: why"}},
		{notify.Hook, 302, "", notify.Result{Verdict: notify.Permanent,
			Reason: "302 Found: why (redirects are not followed: set the address that it leads to)"}},
		{notify.Chat, 410, "", notify.Result{Verdict: notify.Permanent,
			Reason: "410 Gone: why (the destination no longer exists: set another)"}},
		{notify.Hook, 500, "", notify.Result{Verdict: notify.Temporary, Reason: "500 Internal Server Error: why"}},
		{notify.Chat, 429, "30", notify.Result{Verdict: notify.Temporary, Reason: "429 Too Many Requests: why",
			RetryAfter: 30 * time.Second}},
		{notify.Hook, 503, "9999999", notify.Result{Verdict: notify.Temporary, Reason: "503 Service Unavailable: why",
			RetryAfter: 9999999 * time.Second}},
	} {
		r := newReceiver(t)
		r.answer = func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.Header().Set("Retry-After", tc.after)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(tc.status)
			if tc.status != 204 {
				fmt.Fprint(w, "why\n", strings.Repeat(" ", 100_000))
			}
			return true
		}
		clock := testkit.NewClock(time.Unix(1_900_000_000, 0))
		c := hook.NewChannel(tc.channel, hook.Options{Client: client(0), Now: clock.Now, Destinations: destinations{
			all: notify.Destination{URL: r.URL}}})
		got := deliver(t, c, messages("shop", 1)...)
		if diff := cmp.Diff(tc.want, got[0]); diff != "" {
			t.Errorf("%s %d (-want +got):\n%s", tc.channel, tc.status, diff)
		}
		// A receiver that asked for a pause gets it. What waits for it was not tried.
		got = deliver(t, c, messages("shop", 1)...)
		if resting := tc.after != ""; got[0].Untried != resting {
			t.Errorf("%s %d, the next: %+v", tc.channel, tc.status, got[0])
		} else if resting && (got[0].Verdict != notify.Temporary || got[0].RetryAfter > time.Hour+time.Second) {
			t.Errorf("%s %d, the next: %+v", tc.channel, tc.status, got[0])
		}
		clock.Advance(2 * time.Hour)
		if got = deliver(t, c, messages("shop", 1)...); got[0].Untried {
			t.Errorf("%s %d, after the pause: %+v", tc.channel, tc.status, got[0])
		}
	}
}

// TestHanging has one client whose receiver hangs: it delays no other, holds few messages, and is left alone for a
// while.
func TestHanging(t *testing.T) {
	t.Parallel()
	dead, alive := newReceiver(t), newReceiver(t)
	dead.hang(true)
	clock := testkit.NewClock(time.Unix(1_900_000_000, 0))
	c := hook.NewChannel(notify.Hook, hook.Options{Client: client(200 * time.Millisecond), Now: clock.Now, PerClient: 20,
		Destinations: destinations{of: map[string]string{"dead": dead.URL + "/s3cret", "alive": alive.URL}}})
	all := append(messages("dead", 50), messages("alive", 20)...)
	results := make([]notify.Result, len(all))
	var mu sync.Mutex
	through, before := 0, -1
	c.Deliver(t.Context(), all, func(i int, r notify.Result) {
		mu.Lock()
		defer mu.Unlock()
		results[i] = r
		switch {
		case i >= 50:
			through++
		case !r.Untried && before < 0:
			before = through
		}
	})
	if before != 20 {
		t.Errorf("%d messages of another client were through when the first call timed out, want 20", before)
	}
	tried := 0
	for i, r := range results[:50] {
		if r.Verdict != notify.Temporary || strings.Contains(r.Reason, "s3cret") || r.Untried && r.RetryAfter < time.Second {
			t.Errorf("message %d to a receiver that hangs: %+v", i, r)
		}
		if !r.Untried {
			tried++
		}
	}
	if tried != 20 {
		t.Errorf("%d messages were tried, want 20", tried)
	}
	dead.hang(false)
	if r := deliver(t, c, messages("dead", 1)...)[0]; r.Verdict != notify.Temporary || r.Untried {
		t.Errorf("while it is left alone: %+v", r)
	}
	clock.Advance(time.Minute)
	if r := deliver(t, c, messages("dead", 1)...)[0]; r.Verdict != notify.Accepted {
		t.Errorf("when it answers again: %+v", r)
	}
	if r := deliver(t, c, messages("none", 1)...)[0]; r.Verdict != notify.Permanent ||
		!strings.Contains(r.Reason, "PUT /destinations/webhook") {
		t.Errorf("without a destination: %+v", r)
	}
}

// TestBack has a receiver that answers again: one message tries it, and those behind it lose no attempt.
func TestBack(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	clock := testkit.NewClock(time.Unix(1_900_000_000, 0))
	c := hook.NewChannel(notify.Hook, hook.Options{Client: client(200 * time.Millisecond), Now: clock.Now,
		Destinations: destinations{all: notify.Destination{URL: r.URL}}})
	r.hang(true)
	if got := deliver(t, c, messages("shop", 1)...)[0]; got.Verdict != notify.Temporary || got.Untried {
		t.Fatalf("while it hangs: %+v", got)
	}
	r.hang(false)
	clock.Advance(5 * time.Second)
	accepted := 0
	for i, got := range deliver(t, c, messages("shop", 50)...) {
		switch {
		case got.Verdict == notify.Accepted:
			accepted++
		case got.Verdict != notify.Temporary || !got.Untried || got.RetryAfter != time.Second:
			t.Errorf("message %d: %+v", i, got)
		}
	}
	if accepted == 0 {
		t.Error("no message tried it")
	}
}

// TestPrivate sees that a destination in a private network is not called, and that the reason does not contain it.
func TestPrivate(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	c := hook.NewChannel(notify.Chat, hook.Options{Client: outbound.New(outbound.Options{}), Destinations: destinations{
		all: notify.Destination{URL: r.URL + "/s3cret"}}})
	got := deliver(t, c, messages("shop", 1)...)[0]
	if got.Verdict != notify.Temporary || !strings.Contains(got.Reason, "--allow-networks") ||
		strings.Contains(got.Reason, "s3cret") || len(r.received()) != 0 {
		t.Errorf("%+v, %v received", got, r.received())
	}
}
