package provider_test

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

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/channeltest"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/provider"
)

// declared are the providers of clients; "" has those of all others.
type declared map[string][]notify.Provider

func (d declared) ProvidersFor(_ context.Context, client string, _ notify.ChannelID) ([]notify.Provider, error) {
	if own, ok := d[client]; ok {
		return own, nil
	}
	return d[""], nil
}

// gateway is a service that sends texts.
type gateway struct {
	*httptest.Server
	// answer is called for each call, if it is not nil; it reports whether the call was answered.
	answer func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	hangs    chan struct{} // open while it hangs
	got      map[string]int
	texts    []map[string]string
	clients  map[string]string // of messages
	settled  func(string) bool
	problems []string
	calls    int
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{got: map[string]int{}, clients: map[string]string{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(func() {
		g.hang(false)
		g.Close()
	})
	return g
}

func (g *gateway) hang(on bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case on:
		g.hangs = make(chan struct{})
	case g.hangs != nil:
		close(g.hangs)
		g.hangs = nil
	}
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]string
	raw, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(raw, &body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	hangs := g.hangs
	g.calls++
	g.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
		return
	}
	if g.answer != nil && g.answer(w, r) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	open := 0
	for id := range g.got {
		if g.settled != nil && !g.settled(id) && g.clients[id] == body["client"] {
			open++
		}
	}
	if open > 8 {
		g.problems = append(g.problems, fmt.Sprintf("%d messages were accepted and not recorded", open))
	}
	g.got[body["id"]]++
	g.clients[body["id"]] = body["client"]
	g.texts = append(g.texts, body)
}

func (g *gateway) received() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	got := map[string]int{}
	for id, n := range g.got {
		got[id] = n
	}
	return got
}

func (g *gateway) called() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

const secret = "S3cret+key/1"

// of returns a provider that calls a gateway.
func of(g *gateway, name string, weight int) notify.Provider {
	return notify.Provider{Name: name, Channel: notify.SMS, Updated: time.Unix(1, 0),
		Secrets: map[string]string{"key": secret},
		ProviderDefinition: notify.ProviderDefinition{URL: g.URL + "/send", Weight: weight,
			Headers: map[string]string{"Authorization": `Bearer {{secret "key"}}`},
			JSON:    json.RawMessage(`{"to":"{{phone}}","text":"{{text}}","id":"{{id}}","client":"{{client}}"}`)}}
}

func client(timeout time.Duration) *outbound.Client {
	return outbound.New(outbound.Options{Private: true, Timeout: timeout})
}

func messages(client string, n int) []notify.Outgoing {
	all := make([]notify.Outgoing, n)
	for i := range all {
		all[i] = notify.Outgoing{Number: int64(i), ID: fmt.Sprintf("%s-%d", client, i), To: fmt.Sprintf("+49151%08d", i),
			UserID: fmt.Sprint("user", i), ClientID: client, Body: &notify.Body{Text: "Hello"}, Attempt: 1}
	}
	return all
}

func deliver(t *testing.T, c notify.Channel, all ...notify.Outgoing) []notify.Result {
	t.Helper()
	results := make([]notify.Result, len(all))
	c.Deliver(t.Context(), all, func(i int, r notify.Result) { results[i] = r })
	return results
}

func TestConformance(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T, terms channeltest.Terms) channeltest.Setup {
		g := newGateway(t)
		g.settled = terms.Settled
		p := of(g, "gateway", 1)
		c := provider.NewChannel(notify.SMS, provider.Options{Client: client(0), PerClient: 1000,
			Grace: terms.Grace, Providers: declared{"": {p}}})
		return channeltest.Setup{Channel: c, Received: g.received, Hang: g.hang, Users: true, Phones: true,
			Violations: func() []string {
				g.mu.Lock()
				defer g.mu.Unlock()
				return g.problems
			}}
	})
}

// TestFailover has a first provider that fails: its messages go to the next at once, until it works again.
func TestFailover(t *testing.T) {
	t.Parallel()
	first, second := newGateway(t), newGateway(t)
	broken := true
	first.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		if broken {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "the key "+secret+" of 4915100000000 is late")
		}
		return broken
	}
	clock := testkit.NewClock(time.Unix(1_900_000_000, 0))
	c := provider.NewChannel(notify.SMS, provider.Options{Client: client(0), Now: clock.Now,
		Providers: declared{"": {of(first, "first", 1), of(second, "second", 0)}}})
	one := func(want, contains string) {
		t.Helper()
		r := deliver(t, c, messages("shop", 1)...)[0]
		if r.Verdict != notify.Accepted || !strings.HasPrefix(r.Via, "accepted by "+want) ||
			!strings.Contains(r.Via, contains) {
			t.Errorf("got %+v, want %s with %q", r, want, contains)
		}
		if strings.Contains(r.Via, secret) || strings.Contains(r.Via, "4915100000000") {
			t.Errorf("a secret or a number is in %q", r.Via)
		}
	}
	for range 5 {
		one("second", "after first: 500 Internal Server Error: the key … of … is late")
	}
	one("second", "")
	if first.called() != 5 {
		t.Errorf("the first was called %d times, want 5 until its breaker opened", first.called())
	}
	if h := c.Health("", "first"); h.State != failover.Open || h.Failures != 5 {
		t.Errorf("the health is %+v", h)
	}
	clock.Advance(5 * time.Second)
	one("second", "after first") // the call that tried whether it works again
	clock.Advance(5 * time.Second)
	one("second", "")
	if first.called() != 6 {
		t.Errorf("the first was called %d times, want 6", first.called())
	}
	broken = false
	clock.Advance(5 * time.Second)
	one("first", "")
	one("first", "")
	if h := c.Health("", "first"); h.State != failover.Closed {
		t.Errorf("the health is %+v", h)
	}
}

// TestOutcomes has answers of two providers, and what becomes of the message.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		first, second int // statuses
		after         string
		want          notify.Result
		calls         int
	}{
		{200, 0, "", notify.Result{Verdict: notify.Accepted, Via: "accepted by first"}, 1},
		{400, 200, "", notify.Result{Verdict: notify.Permanent, Reason: "first: 400 Bad Request: why"}, 1},
		{422, 200, "", notify.Result{Verdict: notify.Permanent, Reason: "first: 422 Unprocessable Entity: why"}, 1},
		{409, 200, "", notify.Result{Verdict: notify.Permanent, Reason: "first: 409 Conflict: why"}, 1},
		{401, 200, "", notify.Result{Verdict: notify.Accepted,
			Via: "accepted by second, after first: 401 Unauthorized: why"}, 2},
		{302, 200, "", notify.Result{Verdict: notify.Accepted, Via: "accepted by second, after first: 302 Found: why " +
			"(redirects are not followed: set the address that it leads to)"}, 2},
		{503, 400, "", notify.Result{Verdict: notify.Permanent,
			Reason: "first: 503 Service Unavailable: why; second: 400 Bad Request: why"}, 2},
		{503, 429, "", notify.Result{Verdict: notify.Temporary,
			Reason: "first: 503 Service Unavailable: why; second: 429 Too Many Requests: why"}, 2},
		{429, 200, "60", notify.Result{Verdict: notify.Accepted,
			Via: "accepted by second, after first: 429 Too Many Requests: why"}, 2},
		{429, 429, "60", notify.Result{Verdict: notify.Temporary,
			Reason: "first: 429 Too Many Requests: why; second: 429 Too Many Requests: why"}, 2},
	} {
		calls := 0
		answering := func(status int) *gateway {
			g := newGateway(t)
			g.answer = func(w http.ResponseWriter, _ *http.Request) bool {
				calls++
				w.Header().Set("Retry-After", tc.after)
				w.Header().Set("Location", g.URL+"/elsewhere")
				w.WriteHeader(status)
				fmt.Fprint(w, "why\n")
				return true
			}
			return g
		}
		clock := testkit.NewClock(time.Unix(1_900_000_000, 0))
		c := provider.NewChannel(notify.SMS, provider.Options{Client: client(0), Now: clock.Now, Providers: declared{
			"": {of(answering(tc.first), "first", 1), of(answering(max(tc.second, 200)), "second", 0)}}})
		if got := deliver(t, c, messages("shop", 1)...)[0]; got != tc.want || calls != tc.calls {
			t.Errorf("%d and %d, %d calls:\n%+v, want\n%+v", tc.first, tc.second, calls, got, tc.want)
		}
		if tc.first != 429 || tc.second != 429 {
			continue
		}
		// Both asked to be left alone: what follows is no attempt.
		got := deliver(t, c, messages("shop", 1)...)[0]
		if !got.Untried || got.RetryAfter != time.Minute || calls != 2 {
			t.Errorf("while they want to be left alone: %+v", got)
		}
		clock.Advance(time.Minute)
		if got := deliver(t, c, messages("shop", 1)...)[0]; got.Untried || calls != 4 {
			t.Errorf("afterwards: %+v", got)
		}
	}
}

// TestHostileProvider has providers that answer as they like: each message ends soon, and the next provider gets it.
func TestHostileProvider(t *testing.T) {
	t.Parallel()
	internal := newGateway(t)
	for name, tc := range map[string]struct {
		answer  http.HandlerFunc
		verdict notify.Verdict
		reason  string
	}{
		"endless body": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			for {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}, notify.Temporary, "500"},
		"slow body": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, notify.Temporary, "no answer"},
		"no answer": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server sees only then that the client is gone
			<-r.Context().Done()
		}, notify.Temporary, "no answer"},
		"redirect to a private address": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, internal.URL, http.StatusTemporaryRedirect)
		}, notify.Temporary, "redirects are not followed"},
		"10 MB of headers": {func(w http.ResponseWriter, _ *http.Request) {
			for i := range 1000 {
				w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 10_000))
			}
		}, notify.Temporary, "no answer"},
		"deep JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("[", 60_000))
		}, notify.Permanent, "200 OK"},
		"endless JSON": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"`)
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 32<<10)); err != nil {
					return
				}
			}
		}, notify.Permanent, "200 OK"},
		"the secret": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "you said "+r.Header.Get("Authorization")+" and S3cret%2Bkey%2F1", http.StatusBadRequest)
		}, notify.Permanent, "you said Bearer … and …"},
		"control characters": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "\x1b[31m\x00\r\n<script>\xff")
		}, notify.Permanent, "400"},
		"hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, notify.Temporary, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hostile, good := httptest.NewServer(tc.answer), newGateway(t)
			defer hostile.Close()
			bad := of(good, "bad", 1)
			bad.URL = hostile.URL
			bad.Success = &notify.AnswerRule{JSON: &notify.JSONRule{Path: "status", Equals: json.RawMessage(`"ok"`)}}
			slow := 10 * time.Second
			if tc.reason == "no answer" {
				slow = 200 * time.Millisecond
			}
			alone := provider.NewChannel(notify.SMS, provider.Options{Client: client(slow), Providers: declared{"": {bad}}})
			got := deliver(t, alone, messages("shop", 1)...)[0]
			if got.Verdict != tc.verdict || !strings.Contains(got.Reason, tc.reason) || strings.Contains(got.Reason, secret) ||
				len(got.Reason) > 1000 || strings.ContainsAny(got.Reason, "\x00\x1b\r\n") {
				t.Errorf("got %+v, want %q", got, tc.reason)
			}
			if tc.verdict == notify.Permanent {
				return
			}
			both := provider.NewChannel(notify.SMS, provider.Options{Client: client(slow),
				Providers: declared{"": {bad, of(good, "good", 0)}}})
			if got := deliver(t, both, messages("shop", 1)...)[0]; got.Verdict != notify.Accepted {
				t.Errorf("with another provider: %+v", got)
			}
		})
	}
	t.Cleanup(func() {
		if internal.called() != 0 {
			t.Error("a redirect was followed")
		}
	})
}

// TestPrivate sees that providers in private networks are not called.
func TestPrivate(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for _, address := range []string{g.URL, "https://169.254.169.254/", "https://10.0.0.1/", "https://[::1]:1/"} {
		p := of(g, "private", 1)
		p.URL = address
		c := provider.NewChannel(notify.SMS, provider.Options{Client: outbound.New(outbound.Options{}),
			Providers: declared{"": {p}}})
		got := deliver(t, c, messages("shop", 1)...)[0]
		if got.Verdict != notify.Temporary || !strings.Contains(got.Reason, "--allow-networks") || g.called() != 0 {
			t.Errorf("%s: %+v", address, got)
		}
	}
}

// TestDeadProvider has one client whose provider hangs: it delays no other, and holds few messages.
func TestDeadProvider(t *testing.T) {
	t.Parallel()
	dead, alive := newGateway(t), newGateway(t)
	dead.hang(true)
	clock := testkit.NewClock(time.Unix(1_900_000_000, 0))
	c := provider.NewChannel(notify.SMS, provider.Options{Client: client(200 * time.Millisecond), Now: clock.Now,
		PerClient: 30, Providers: declared{"dead": {of(dead, "p", 1)}, "alive": {of(alive, "p2", 1)}}})
	all := append(messages("dead", 50), messages("alive", 30)...)
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
	if before != 30 {
		t.Errorf("%d messages of another client were through when the first call timed out, want 30", before)
	}
	tried := 0
	for i, r := range results[:50] {
		if r.Verdict != notify.Temporary || r.Untried && r.RetryAfter < time.Second {
			t.Errorf("message %d to a provider that hangs: %+v", i, r)
		}
		if !r.Untried {
			tried++
		}
	}
	if tried != 30 || dead.called() > 12 {
		t.Errorf("%d messages were tried with %d calls, want 30 and few", tried, dead.called())
	}

	// When the pause is over one message tries it, and those behind it lose no attempt.
	dead.hang(false)
	clock.Advance(time.Minute)
	for i, r := range deliver(t, c, messages("dead", 30)...) {
		if r.Verdict != notify.Accepted && !r.Untried {
			t.Errorf("message %d to a provider that answers again: %+v", i, r)
		}
	}
}

// TestRate sees that a provider with a limit gets no more than that, and that the rest comes back without an attempt.
func TestRate(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	p := of(g, "slow", 1)
	p.Rate = 0.5
	clock := testkit.NewClock(time.Unix(1_900_000_000, 0))
	c := provider.NewChannel(notify.SMS, provider.Options{Client: client(0), Now: clock.Now, PerClient: 3,
		Providers: declared{"": {p}}, Servers: func() int { return 2 }})
	results := deliver(t, c, messages("shop", 10)...)
	accepted, latest := 0, time.Duration(0)
	for _, r := range results {
		switch {
		case r.Verdict == notify.Accepted:
			accepted++
		case !r.Untried || r.RetryAfter < time.Second:
			t.Errorf("a message that has no room: %+v", r)
		default:
			latest = max(latest, r.RetryAfter)
		}
	}
	if accepted != 1 || g.called() != 1 || latest < 10*time.Second {
		t.Errorf("%d were accepted, %d calls, the last comes back after %s", accepted, g.called(), latest)
	}
	clock.Advance(4 * time.Second) // for each of two servers
	if got := deliver(t, c, messages("shop", 1)...)[0]; got.Verdict != notify.Accepted {
		t.Errorf("the next: %+v", got)
	}
}

// TestNone has clients without a provider that can be used.
func TestNone(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	bad := of(g, "bad", 1)
	bad.URL = "ftp://example.com"
	c := provider.NewChannel(notify.SMS, provider.Options{Client: client(0), Providers: declared{"bad": {bad}}})
	for client, want := range map[string]string{"none": "PUT /providers/NAME", "bad": "https://"} {
		got := deliver(t, c, messages(client, 1)...)[0]
		if got.Verdict != notify.Permanent || !strings.Contains(got.Reason, want) {
			t.Errorf("%s: %+v", client, got)
		}
	}
	c = provider.NewChannel(notify.SMS, provider.Options{Client: client(0), Providers: broken{}})
	if got := deliver(t, c, messages("shop", 1)...)[0]; got.Verdict != notify.Temporary || !got.Untried {
		t.Errorf("without a database: %+v", got)
	}
}

type broken struct{}

func (broken) ProvidersFor(context.Context, string, notify.ChannelID) ([]notify.Provider, error) {
	return nil, io.ErrUnexpectedEOF
}
