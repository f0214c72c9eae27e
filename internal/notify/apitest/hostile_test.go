package apitest_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/safedial"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
	"ingot/internal/notify/delivery"
	"ingot/internal/notify/hook"
	"ingot/internal/notify/inbox"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/provider"
	"ingot/internal/notify/push"
)

// site is the notification service with all its channels, behind HTTP, and what its channels reach.
type site struct {
	*apitest.World
	t        *testing.T
	api      [3]string // URLs, by version
	client   *http.Client
	outbound outbound.Options
	sink     *mailtest.Sink
	plain    *receiver // of webhooks, chats and providers
	browser  *browser
	trap     *receiver // nothing may reach it
	delivery *delivery.Delivery
	log      *errorLog
}

const theUser, theMail, thePhone = "u-1", "ann@example.com", "+4915112345678"

// phones is a directory whose users have a phone number.
type phones struct{ *apitest.Directory }

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{World: apitest.Limited(t, actions.Limits{Requests: -1, Burst: -1, Recipients: -1}), t: t, log: &errorLog{},
		client: &http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}}
	t.Cleanup(s.client.CloseIdleConnections)
	s.Directory.Users[theUser] = theMail
	for _, id := range []string{"s-1", "o-1", "sc"} {
		s.Directory.Members[id] = []string{theUser}
	}
	for version := 1; version <= 2; version++ {
		server := httptest.NewServer(s.Handler(version))
		t.Cleanup(server.Close)
		s.api[version] = server.URL
	}
	s.sink = mailtest.New(t, mailtest.Options{Keep: 1_000_000})
	s.plain, s.browser, s.trap = newReceiver(t, "127.0.0.1:0"), newBrowser(t), newReceiver(t, "127.0.0.2:0")
	// What listens elsewhere on loopback stands for internal services.
	guard := safedial.Guard{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	s.outbound = outbound.Options{Guard: guard, TLS: s.browser.trust(), Timeout: 5 * time.Second}
	s.deliver()
	return s
}

// deliver starts the delivery with all channels.
func (s *site) deliver() {
	s.t.Helper()
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelError}))
	key := bytes.Repeat([]byte{7}, 32)
	channel, err := mail.NewChannel(mail.Options{URL: s.sink.URL("", ""), Log: log, Identity: mail.Identity{
		From: "The Service <no-reply@example.com>", Domain: "example.com"}})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := channel.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(channel.Stop)
	keys, err := push.NewKeys(key, "no-reply@example.com", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	calls := func() *outbound.Client {
		c := outbound.New(s.outbound)
		s.t.Cleanup(c.Close)
		return c
	}
	more := map[notify.ChannelID]notify.Channel{notify.Inbox: inbox.NewChannel(s.Store, s.Hub)}
	for _, id := range []notify.ChannelID{notify.Hook, notify.Chat} {
		more[id] = hook.NewChannel(id, hook.Options{Destinations: s.Store, Client: calls(), Log: log})
	}
	more[notify.SMS] = provider.NewChannel(notify.SMS, provider.Options{Providers: s.Store, Client: calls(), Log: log})
	more[notify.Push] = push.NewChannel(push.Options{Store: s.Store, Client: calls(), Keys: keys, Log: log,
		Devices: provider.NewChannel(notify.Push, provider.Options{Providers: s.Store, Client: calls(), Log: log})})
	s.delivery = delivery.New(delivery.Options{
		Store: s.Store, Directory: phones{s.Directory}, Channel: channel, More: more, IDs: s.IDs,
		Unsubscriber: s.Unsubscriber,
		From:         "no-reply@example.com", Domain: "example.com", BaseURL: "https://notifications.example.com",
		Dir:      s.t.TempDir(),
		Schedule: delivery.Schedule{First: 10 * time.Millisecond, Longest: 50 * time.Millisecond, Attempts: 3}, Log: log,
		Poll: 50 * time.Millisecond, Webhooks: s.outbound,
	})
	if err := s.delivery.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.delivery.Stop)
}

// reply is an answer.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// ask makes a request. Headers are pairs.
func (s *site) ask(version int, bearer, method, path string, body io.Reader, headers ...string) (reply, error) {
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.api[version]+path, body)
	if err != nil {
		return reply{}, err
	}
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return reply{answer.StatusCode, answer.Header, text}, err
}

// must makes a request that has to succeed, and decodes its answer.
func (s *site) must(version int, bearer, method, path, body string, into any) {
	s.t.Helper()
	a, err := s.ask(version, bearer, method, path, strings.NewReader(body))
	if err != nil || a.status > 299 {
		s.t.Fatalf("v%d %s %s %s: %d %s, %v", version, method, path, body, a.status, a.body, err)
	}
	if into != nil {
		if err := json.Unmarshal(a.body, into); err != nil {
			s.t.Fatalf("%s %s: %v in %s", method, path, err, a.body)
		}
	}
}

// errorLog keeps what is logged.
type errorLog struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *errorLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *errorLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// called is a request that a receiver got.
type called struct {
	path   string
	header http.Header
	body   []byte
}

// receiver is a program of others that the service calls.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	all []called
}

func newReceiver(t *testing.T, address string) *receiver {
	t.Helper()
	r := &receiver{}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = httptest.NewUnstartedServer(r)
	r.Server.Listener.Close()
	r.Server.Listener = l
	r.Start()
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, called{q.URL.Path, q.Header, body})
}

func (r *receiver) calls(path string) (found []called) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		if path == "" || c.path == path {
			found = append(found, c)
		}
	}
	return found
}

func (b *browser) trust() *tls.Config {
	return b.Server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}
