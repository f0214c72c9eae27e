package push_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/channeltest"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/provider"
	"ingot/internal/notify/push"
)

// declared are the providers of all clients.
type declared []notify.Provider

func (d declared) ProvidersFor(context.Context, string, notify.ChannelID) ([]notify.Provider, error) {
	return d, nil
}

// relay is a service that delivers to devices.
type relay struct {
	*httptest.Server
	// answer is called for each call, if it is not nil; it reports whether the call was answered.
	answer func(w http.ResponseWriter, body map[string]any) bool

	mu       sync.Mutex
	hangs    chan struct{} // open while it hangs
	got      map[string]int
	clients  map[string]string // of messages
	bodies   []map[string]any
	settled  func(string) bool
	problems []string
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	s := &relay{got: map[string]int{}, clients: map[string]string{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.hang(false)
		s.Close()
	})
	return s
}

func (s *relay) hang(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case on:
		s.hangs = make(chan struct{})
	case s.hangs != nil:
		close(s.hangs)
		s.hangs = nil
	}
}

func (s *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	raw, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(raw, &body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	hangs := s.hangs
	s.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
		return
	}
	if s.answer != nil && s.answer(w, body) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, _ := body["id"].(string)
	client, _ := body["client"].(string)
	open := 0
	for other := range s.got {
		if s.settled != nil && !s.settled(other) && s.clients[other] == client {
			open++
		}
	}
	if open > 8 {
		s.problems = append(s.problems, fmt.Sprintf("%d messages were accepted and not recorded", open))
	}
	s.got[id]++
	s.clients[id] = client
	s.bodies = append(s.bodies, body)
}

// tokens are those of the accepted calls.
func (s *relay) tokens() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.bodies {
		all = append(all, fmt.Sprint(b["to"]))
	}
	slices.Sort(all)
	return all
}

// serving returns a provider that calls a relay.
func serving(s *relay, name, service string) notify.Provider {
	return notify.Provider{Name: name, Channel: notify.Push, Updated: time.Unix(1, 0),
		Secrets: map[string]string{"key": "S3cret+key"},
		ProviderDefinition: notify.ProviderDefinition{URL: s.URL + "/send", Weight: 1, Service: service,
			Headers: map[string]string{"Authorization": `Bearer {{secret "key"}}`},
			Gone: []notify.AnswerRule{{Status: []notify.StatusRange{{From: 410, To: 410}}},
				{JSON: &notify.JSONRule{Path: "error", Equals: json.RawMessage(`"UNREGISTERED"`)}}},
			JSON: json.RawMessage(`{"to":"{{token}}","title":"{{title}}","text":"{{text}}","url":"{{url}}","id":"{{id}}",
				"client":"{{client}}","topic":"{{topic}}","order":"{{data \"order\"}}"}`)}}
}

func device(service, token string) notify.PushSubscription {
	return notify.PushSubscription{ID: notify.PushDeviceID("client", service, token), Token: token, TokenOf: service,
		Owner: notify.Owner{ClientID: "client", UserID: "ann"}}
}

// withDevices returns a channel with providers.
func withDevices(t *testing.T, o push.Options, list ...notify.Provider) *push.Channel {
	t.Helper()
	o.Devices = provider.NewChannel(notify.Push, provider.Options{Providers: declared(list),
		Client: outbound.New(outbound.Options{Private: true}), Random: func() float64 { return 0 }})
	return newChannel(t, o)
}

// registered gives messages without browsers a device.
type registered struct{ notify.Channel }

func (c registered) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	own := slices.Clone(batch)
	for i := range own {
		own[i].Browsers = []notify.PushSubscription{device("relay", "token-"+fmt.Sprint(i))}
	}
	c.Channel.Deliver(ctx, own, done)
}

func TestConformanceOfDevices(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T, terms channeltest.Terms) channeltest.Setup {
		s := newRelay(t)
		s.settled = terms.Settled
		c := withDevices(t, push.Options{PerClient: 1000, Grace: terms.Grace}, serving(s, "relay", ""))
		return channeltest.Setup{Channel: registered{c}, Hang: s.hang, Users: true,
			Received: func() map[string]int {
				s.mu.Lock()
				defer s.mu.Unlock()
				return maps.Clone(s.got)
			},
			Violations: func() []string {
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.problems
			}}
	})
}

// TestDevices sends a message to a browser and two devices of a user: it is one message, and who has it does not get it
// again.
func TestDevices(t *testing.T) {
	t.Parallel()
	browsers, phones := newService(t), newRelay(t)
	store := &stored{}
	c := withDevices(t, push.Options{Store: store}, serving(phones, "relay", ""))
	o := message(browsers.subscribe("ann"), device("relay", "good"), device("relay", "busy"))
	o.Data = map[string]any{"order": json.Number("7"), "push": map[string]any{"url": "/orders/7", "topic": "order-7"}}
	phones.answer = func(w http.ResponseWriter, body map[string]any) bool {
		if body["to"] != "busy" {
			return false
		}
		http.Error(w, "no room for busy", http.StatusTooManyRequests)
		return true
	}
	r := deliver(t, c, o)
	if r.Verdict != notify.Temporary || r.Reason !=
		"2 of 3 browsers and devices have it: relay: relay: 429 Too Many Requests: no room for …" {
		t.Errorf("one is busy: %+v", r)
	}
	if has := store.accepted[o.Number]; len(has) != 2 || len(browsers.pushed) != 1 ||
		!slices.Equal(phones.tokens(), []string{"good"}) {
		t.Errorf("it has reached %v, browsers %d, devices %v", has, len(browsers.pushed), phones.tokens())
	}
	want := map[string]any{"to": "good", "title": "Hi", "text": "One <b>\ntwo", "url": "/orders/7", "id": "m-1",
		"client": "client", "topic": "order-7", "order": "7"}
	if !maps.Equal(phones.bodies[0], want) {
		t.Errorf("the device got %v, want %v", phones.bodies[0], want)
	}
	for i := range o.Browsers {
		if slices.Contains(store.accepted[o.Number], o.Browsers[i].ID) {
			o.Browsers[i].Has = []int64{o.Number}
		}
	}
	phones.answer, o.Attempt = nil, 2
	r = deliver(t, c, o)
	if r.Verdict != notify.Accepted || r.Via != "accepted by 3 of 3 browsers and devices" {
		t.Errorf("the second attempt: %+v", r)
	}
	if len(browsers.pushed) != 1 || !slices.Equal(phones.tokens(), []string{"busy", "good"}) {
		t.Errorf("then it has reached browsers %d, devices %v", len(browsers.pushed), phones.tokens())
	}
}

// TestDeviceGone removes devices of which a provider says that they no longer exist, and no others.
func TestDeviceGone(t *testing.T) {
	t.Parallel()
	answers := map[string]struct {
		status int
		body   string
		gone   bool
	}{
		"status-410":  {410, "", true},
		"in-the-body": {400, `{"error":"UNREGISTERED"}`, true},
		"with-200":    {200, `{"error":"UNREGISTERED"}`, true},
		"other-error": {400, `{"error":"INVALID"}`, false},
		"not-found":   {404, "", false}, // no rule says so: the address of the provider may be wrong
		"no-access":   {403, "", false},
		"broken":      {500, `UNREGISTERED`, false},
		"fine":        {200, `{}`, false},
	}
	phones := newRelay(t)
	phones.answer = func(w http.ResponseWriter, body map[string]any) bool {
		a := answers[fmt.Sprint(body["to"])]
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
		return true
	}
	for token, a := range answers {
		store := &stored{}
		c := withDevices(t, push.Options{Store: store}, serving(phones, "relay", ""))
		d := device("relay", token)
		r := deliver(t, c, message(d))
		gone := slices.Equal(store.deleted, []string{d.ID})
		if gone != a.gone || strings.Contains(r.Reason, "was removed") != a.gone {
			t.Errorf("%s: removed %v, %+v", token, store.deleted, r)
		}
		if (r.Verdict == notify.Accepted) != (token == "fine") {
			t.Errorf("%s: %+v", token, r)
		}
	}
}

// TestMadeUpTokens: users register tokens, and what a provider says to those that are no tokens does not pause it for
// others.
func TestMadeUpTokens(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 403, 404, 410} {
		phones := newRelay(t)
		phones.answer = func(w http.ResponseWriter, body map[string]any) bool {
			if body["to"] == "good" {
				return false
			}
			w.WriteHeader(status)
			return true
		}
		c := withDevices(t, push.Options{}, serving(phones, "relay", ""))
		for i := range 10 {
			deliver(t, c, message(device("relay", fmt.Sprint("made-up-", i))))
		}
		if r := deliver(t, c, message(device("relay", "good"))); r.Verdict != notify.Accepted {
			t.Errorf("after ten answers with %d: %+v", status, r)
		}
	}
}

// TestServices delivers to a device by the providers of its service, one after the other.
func TestServices(t *testing.T) {
	t.Parallel()
	down, reserve, other := newRelay(t), newRelay(t), newRelay(t)
	down.answer = func(w http.ResponseWriter, _ map[string]any) bool {
		http.Error(w, "maintenance", http.StatusServiceUnavailable)
		return true
	}
	second := serving(reserve, "second", "android")
	second.Weight = 0
	c := withDevices(t, push.Options{}, serving(down, "first", "android"), second, serving(other, "ios", ""))
	r := deliver(t, c, message(device("android", "tok-a"), device("ios", "tok-i")))
	if r.Verdict != notify.Accepted || r.Via != "accepted by 2 of 2 devices" {
		t.Errorf("%+v", r)
	}
	if all := append(reserve.tokens(), other.tokens()...); !slices.Equal(all, []string{"tok-a", "tok-i"}) {
		t.Errorf("android, ios: %v", all)
	}
	r = deliver(t, c, message(device("windows", "tok-w")))
	if r.Verdict != notify.Permanent ||
		!strings.Contains(r.Reason, `no provider delivers to devices of the service "windows"`) {
		t.Errorf("a service without a provider: %+v", r)
	}
	none := newChannel(t, push.Options{})
	if r := deliver(t, none, message(device("ios", "tok-i"))); r.Verdict != notify.Permanent ||
		!strings.Contains(r.Reason, "no provider delivers messages on push") {
		t.Errorf("without providers: %+v", r)
	}
}

// TestDeviceTokens sends hostile tokens, although none of them can be registered: the provider is called with the token
// or not at all, and no reason has it.
func TestDeviceTokens(t *testing.T) {
	t.Parallel()
	phones := newRelay(t)
	var paths []string
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.EscapedPath())
		http.Error(w, "no "+r.URL.Path, http.StatusBadRequest)
	}))
	defer front.Close()
	p := serving(phones, "relay", "")
	p.URL, p.JSON = front.URL+"/devices/{{token}}", nil
	c := withDevices(t, push.Options{}, p)
	for token, calls := range map[string]int{"..": 0, ".": 0, "../admin": 1, "a/b": 1, "x\r\nX-Injected: 1": 1,
		"a b?c#d": 1, strings.Repeat("x", 9000): 0, "%2e%2e": 1} {
		paths = nil
		r := deliver(t, c, message(device("relay", token)))
		if r.Verdict != notify.Permanent || len(paths) != calls || len(token) > 2 && strings.Contains(r.Reason, token) {
			t.Errorf("%.40q: %+v, called %v", token, r, paths)
		}
		for _, path := range paths {
			if strings.Count(path, "/") != 2 || !strings.HasPrefix(path, "/devices/") {
				t.Errorf("%q leads to %s", token, path)
			}
		}
	}
}

// TestProviderOnLoopback is refused unless the operator allows it: it is checked at each call.
func TestProviderOnLoopback(t *testing.T) {
	t.Parallel()
	phones := newRelay(t)
	c := newChannel(t, push.Options{Devices: provider.NewChannel(notify.Push, provider.Options{
		Providers: declared{serving(phones, "relay", "")}, Client: outbound.New(outbound.Options{})})})
	r := deliver(t, c, message(device("relay", "token")))
	if r.Verdict != notify.Temporary || len(phones.tokens()) != 0 || !strings.Contains(r.Reason, "not sent") {
		t.Errorf("%+v, called with %v", r, phones.tokens())
	}
}

// TestDocumentedProviders declares the providers that the documentation shows, with a local receiver instead of the
// service, and delivers a message.
func TestDocumentedProviders(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "notifications-push.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, block := range strings.Split(string(doc), "```json\n") {
		block, _, _ = strings.Cut(block, "```")
		if i == 0 || !strings.Contains(block, "{{token}}") {
			continue
		}
		found++
		var d notify.ProviderDefinition
		if err := d.Decode([]byte(strings.Replace(block, `"channel": "push",`, "", 1))); err != nil {
			t.Errorf("%s: %v", block, err)
			continue
		}
		phones := newRelay(t)
		_, path, _ := strings.Cut(strings.TrimPrefix(d.URL, "https://"), "/")
		d.URL = phones.URL + "/" + path
		p := notify.Provider{Name: "documented", Channel: notify.Push, ProviderDefinition: d,
			Secrets: map[string]string{}}
		for _, name := range provider.SecretsOf(p) {
			p.Secrets[name] = "the-secret"
		}
		if p.Access != nil {
			p.Secrets[p.Access.Key] = inPEM(t, rsaKey())
			p.Access.URL = newIssuer(t).URL
		}
		store := &stored{}
		c := withDevices(t, push.Options{Store: store}, p)
		o := message(device(p.TokenOf(), "the-token"))
		o.Data = map[string]any{"push": map[string]any{"url": "https://shop.example.com/orders/7"}}
		r := deliver(t, c, o)
		body := ""
		if len(phones.bodies) == 1 {
			raw, _ := json.Marshal(phones.bodies[0])
			body = string(raw)
		}
		for _, want := range []string{"the-token", `"Hi"`, "https://shop.example.com/orders/7"} {
			if r.Verdict != notify.Accepted || !strings.Contains(body, want) {
				t.Errorf("%s\n%+v, the service got %s", block, r, body)
			}
		}
		if strings.Contains(block, "UNREGISTERED") {
			phones.answer = func(w http.ResponseWriter, _ map[string]any) bool {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"error":{"code":404,"details":[{"errorCode":"UNREGISTERED"}]}}`)
				return true
			}
			if r := deliver(t, c, o); r.Verdict != notify.Permanent || len(store.deleted) != 1 {
				t.Errorf("a token that is gone: %+v, removed %v", r, store.deleted)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d providers are documented", found)
	}
}
