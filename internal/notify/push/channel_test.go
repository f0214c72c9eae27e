package push_test

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/channeltest"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/push"
)

// service is a push service with the browsers that are subscribed to it.
type service struct {
	*httptest.Server
	// answer is called for each call, if it is not nil; it reports whether the call was answered.
	answer func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	browsers map[string]*browser // by path
	hangs    chan struct{}       // open while it hangs
	got      map[string]int
	clients  map[string]string // of messages
	pushed   []pushed
	settled  func(string) bool
	problems []string
}

// browser is the other side of a subscription.
type browser struct {
	key  *ecdh.PrivateKey
	auth []byte
}

// pushed is a call that a service took.
type pushed struct {
	path    string
	header  http.Header
	payload map[string]any
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{got: map[string]int{}, clients: map[string]string{}, browsers: map[string]*browser{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.hang(false)
		s.Close()
	})
	return s
}

// subscribe returns the subscription of a new browser.
func (s *service) subscribe(user string) notify.PushSubscription {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	b := &browser{key, make([]byte, 16)}
	_, _ = rand.Read(b.auth)
	s.mu.Lock()
	defer s.mu.Unlock()
	path := fmt.Sprintf("/browser-%d", len(s.browsers))
	s.browsers[path] = b
	endpoint := s.URL + path
	return notify.PushSubscription{ID: notify.PushSubscriptionID("client", endpoint), Endpoint: endpoint,
		Owner: notify.Owner{ClientID: "client", UserID: user}, P256dh: key.PublicKey().Bytes(), Auth: b.auth}
}

func (s *service) hang(on bool) {
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

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	hangs, b := s.hangs, s.browsers[r.URL.Path]
	s.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
		return
	}
	if s.answer != nil && s.answer(w, r) {
		return
	}
	if b == nil {
		http.Error(w, "no such subscription", http.StatusGone)
		return
	}
	plain, err := b.decrypt(raw)
	if err == nil {
		err = verify(r.Header.Get("Authorization"), s.URL)
	}
	var payload map[string]any
	if err == nil {
		err = json.Unmarshal(plain, &payload)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || len(raw) > 4096 {
		s.problems = append(s.problems, fmt.Sprintf("%d bytes: %v", len(raw), err))
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	open := 0
	for id := range s.got {
		if s.settled != nil && !s.settled(id) && s.clients[id] == s.clients[payload["id"].(string)] {
			open++
		}
	}
	if open > 8 {
		s.problems = append(s.problems, fmt.Sprintf("%d messages were accepted and not recorded", open))
	}
	s.got[payload["id"].(string)]++
	s.pushed = append(s.pushed, pushed{r.URL.Path, r.Header, payload})
	w.WriteHeader(http.StatusCreated)
}

// decrypt is the receiving side of RFC 8291. TestVector sees that the sending side is that of the RFC.
func (b *browser) decrypt(body []byte) ([]byte, error) {
	if len(body) < 21+65 || body[20] != 65 {
		return nil, errors.New("no header with a key")
	}
	salt, size, sender, sealed := body[:16], body[16:20], body[21:86], body[86:]
	if !bytes.Equal(size, []byte{0, 0, 16, 0}) || len(sealed) > 4096 {
		return nil, errors.New("not one record of 4096 bytes")
	}
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, err
	}
	shared, err := b.key.ECDH(public)
	if err != nil {
		return nil, err
	}
	derive := func(input, salt []byte, info string, n int) []byte {
		key, err := hkdf.Key(sha256.New, input, salt, info, n)
		if err != nil {
			panic(err)
		}
		return key
	}
	input := derive(shared, b.auth, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(sender), 32)
	block, err := aes.NewCipher(derive(input, salt, "Content-Encoding: aes128gcm\x00", 16))
	if err != nil {
		return nil, err
	}
	opener, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain, err := opener.Open(nil, derive(input, salt, "Content-Encoding: nonce\x00", 12), sealed, nil)
	if err != nil {
		return nil, err
	}
	plain = bytes.TrimRight(plain, "\x00")
	if len(plain) == 0 || plain[len(plain)-1] != 2 {
		return nil, errors.New("no end of the last record")
	}
	return plain[:len(plain)-1], nil
}

// verify checks a header of RFC 8292.
func verify(header, origin string) error {
	token, key, ok := strings.Cut(strings.TrimPrefix(header, "vapid t="), ", k=")
	parts := strings.Split(token, ".")
	if !ok || len(parts) != 3 {
		return fmt.Errorf("the header is %q", header)
	}
	var raw [4][]byte
	for i, part := range append(parts, key) {
		var err error
		if raw[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return err
		}
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), raw[3])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if len(raw[2]) != 64 || !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(raw[2][:32]),
		new(big.Int).SetBytes(raw[2][32:])) {
		return errors.New("the signature is wrong")
	}
	var head, claims map[string]any
	if err := errors.Join(json.Unmarshal(raw[0], &head), json.Unmarshal(raw[1], &claims)); err != nil {
		return err
	}
	expires, _ := claims["exp"].(float64)
	left := time.Until(time.Unix(int64(expires), 0))
	if head["alg"] != "ES256" || head["typ"] != "JWT" || claims["aud"] != origin ||
		claims["sub"] != "mailto:ops@example.com" || left <= 0 || left > 24*time.Hour {
		return fmt.Errorf("the token is %v %v", head, claims)
	}
	return nil
}

// stored is the part of the store that the channel needs.
type stored struct {
	mu       sync.Mutex
	deleted  []string
	accepted map[int64][]string
}

func (s *stored) DeletePushSubscription(_ context.Context, _ notify.Owner, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, id)
	return nil
}

func (s *stored) PushAccepted(_ context.Context, message int64, ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.accepted == nil {
		s.accepted = map[int64][]string{}
	}
	s.accepted[message] = append(s.accepted[message], ids...)
	return nil
}

func newChannel(t *testing.T, o push.Options) *push.Channel {
	t.Helper()
	keys, err := push.NewKeys(bytes.Repeat([]byte{7}, 32), "Ops <ops@example.com>", nil)
	if err != nil {
		t.Fatal(err)
	}
	o.Keys = keys
	if o.Client == nil {
		o.Client = outbound.New(outbound.Options{Private: true})
	}
	if o.Store == nil {
		o.Store = &stored{}
	}
	return push.NewChannel(o)
}

// subscribed gives messages without browsers one.
type subscribed struct {
	notify.Channel
	s *service
}

func (c subscribed) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	own := slices.Clone(batch)
	for i := range own {
		own[i].Browsers = []notify.PushSubscription{c.s.subscribe(own[i].UserID)}
		c.s.mu.Lock()
		c.s.clients[own[i].ID] = own[i].ClientID
		c.s.mu.Unlock()
	}
	c.Channel.Deliver(ctx, own, done)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	channeltest.Run(t, func(t *testing.T, terms channeltest.Terms) channeltest.Setup {
		s := newService(t)
		s.settled = terms.Settled
		c := newChannel(t, push.Options{PerClient: 1000, Grace: terms.Grace})
		return channeltest.Setup{Channel: subscribed{c, s}, Hang: s.hang, Users: true,
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

func message(browsers ...notify.PushSubscription) notify.Outgoing {
	return notify.Outgoing{Number: 1, ID: "m-1", Attempt: 1, UserID: "ann", ClientID: "client", KindID: "news",
		Received: time.Unix(1_900_000_000, 0), Body: &notify.Body{Subject: "Hi", Text: "One <b>\r\ntwo\r\n"},
		Browsers: browsers}
}

// deliver returns the result of a message.
func deliver(t *testing.T, c notify.Channel, o notify.Outgoing) (result notify.Result) {
	t.Helper()
	c.Deliver(t.Context(), []notify.Outgoing{o}, func(_ int, r notify.Result) { result = r })
	return result
}

// TestMessage sees what two browsers of a user get.
func TestMessage(t *testing.T) {
	t.Parallel()
	s := newService(t)
	c := newChannel(t, push.Options{})
	o := message(s.subscribe("ann"), s.subscribe("ann"))
	o.Critical, o.ExpiresAt = true, time.Now().Add(time.Hour)
	o.Data = map[string]any{"push": map[string]any{"url": "/orders/7", "icon": "https://shop.example.com/i.png",
		"topic": "order-7"}}
	if r := deliver(t, c, o); r.Verdict != notify.Accepted || r.Via != "accepted by 2 of 2 browsers" {
		t.Fatalf("%+v", r)
	}
	first := deliverOne(t, s, c, message(s.subscribe("ann")))
	if len(s.pushed) != 3 || len(s.problems) > 0 {
		t.Fatalf("%d were pushed, problems %v", len(s.pushed), s.problems)
	}
	for _, p := range s.pushed[:2] {
		want := map[string]any{"id": "m-1", "title": "Hi", "body": "One <b>\ntwo", "url": "/orders/7", "tag": "order-7",
			"icon": "https://shop.example.com/i.png", "kind_id": "news", "created_at": "2030-03-17T17:46:40Z"}
		if !maps.Equal(p.payload, want) {
			t.Errorf("got %v, want %v", p.payload, want)
		}
		h := p.header
		if ttl := h.Get("TTL"); ttl != "3599" && ttl != "3600" || h.Get("Urgency") != "high" ||
			h.Get("Content-Encoding") != "aes128gcm" || len(h.Get("Topic")) != 32 ||
			h.Get("Topic") != s.pushed[0].header.Get("Topic") || h.Get("Topic") == first.header.Get("Topic") {
			t.Errorf("headers are %v", h)
		}
	}
	if h := first.header; h.Get("TTL") != "259200" || h.Get("Urgency") != "normal" || first.payload["tag"] != "m-1" {
		t.Errorf("without options: %v, %v", h, first.payload)
	}
}

func deliverOne(t *testing.T, s *service, c notify.Channel, o notify.Outgoing) pushed {
	t.Helper()
	if r := deliver(t, c, o); r.Verdict != notify.Accepted || r.Via != "" {
		t.Fatalf("%+v", r)
	}
	return s.pushed[len(s.pushed)-1]
}

// TestLong sees that messages of any length fit, and that a push service that takes less gets less.
func TestLong(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"ascii": strings.Repeat("x", 100_000), "wide": strings.Repeat("ü", 100_000),
		"escaped": strings.Repeat("\"", 50_000), "separators": strings.Repeat("x\u2028", 50_000),
		"emoji": strings.Repeat("👍", 20_000)} {
		s := newService(t)
		o := message(s.subscribe("ann"))
		o.Body = &notify.Body{Subject: strings.Repeat("ü", 5000), Text: text}
		p := deliverOne(t, s, newChannel(t, push.Options{}), o)
		body, title := p.payload["body"].(string), p.payload["title"].(string)
		if !strings.HasSuffix(body, "…") || len(body) < 500 || len([]rune(title)) != 200 || strings.Contains(body, "�") {
			t.Errorf("%s: %d bytes of the body, %d of the title", name, len(body), len(title))
		}
	}
	s := newService(t)
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.ContentLength > 2000 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return true
		}
		return false
	}
	o := message(s.subscribe("ann"))
	o.Body = &notify.Body{Subject: "Hi", Text: strings.Repeat("x", 10_000)}
	deliverOne(t, s, newChannel(t, push.Options{}), o)
	s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return true
	}
	if r := deliver(t, newChannel(t, push.Options{}), o); r.Verdict != notify.Permanent ||
		!strings.Contains(r.Reason, "size") {
		t.Errorf("a service that takes nothing: %+v", r)
	}
}

// TestData sees which data is refused.
func TestData(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]any{
		"url": "javascript:alert(1)", "icon": "data:image/png;base64,x", "topic": "", "colour": "red", "badge": 7,
	} {
		s := newService(t)
		o := message(s.subscribe("ann"))
		o.Data = map[string]any{"push": map[string]any{field: value}}
		if r := deliver(t, newChannel(t, push.Options{}), o); r.Verdict != notify.Permanent ||
			!strings.Contains(r.Reason, `"data.push.`+field+`"`) || len(s.pushed) > 0 {
			t.Errorf("%s: %+v", field, r)
		}
	}
	for _, link := range []string{"//evil.example/x", "/\\evil.example", "https:///x", "x", strings.Repeat("/", 2) + "x",
		"https://e.example/" + strings.Repeat("x", 1000)} {
		s := newService(t)
		o := message(s.subscribe("ann"))
		o.Data = map[string]any{"push": map[string]any{"url": link}}
		if r := deliver(t, newChannel(t, push.Options{}), o); r.Verdict != notify.Permanent {
			t.Errorf("%.50s: %+v", link, r)
		}
	}
	s := newService(t)
	o := message(s.subscribe("ann"))
	o.Data = map[string]any{"push": "x"}
	if r := deliver(t, newChannel(t, push.Options{}), o); r.Verdict != notify.Permanent {
		t.Errorf("no object: %+v", r)
	}
}

// TestAnswers sees what answers of push services mean for one browser.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status  int
		after   string
		want    notify.Verdict
		retry   time.Duration
		says    string
		deleted bool
	}{
		{200, "", notify.Accepted, 0, "", false},
		{202, "", notify.Accepted, 0, "", false},
		{404, "", notify.Permanent, 0, "no longer subscribed", true},
		{410, "", notify.Permanent, 0, "no longer subscribed", true},
		{400, "", notify.Permanent, 0, "400 Bad Request: because", false},
		{401, "", notify.Permanent, 0, "another key", false},
		{403, "", notify.Permanent, 0, "another key", false},
		{307, "", notify.Permanent, 0, "307", false},
		{413, "", notify.Permanent, 0, "size", false},
		{429, "30", notify.Temporary, 30 * time.Second, "429", false},
		{500, "", notify.Temporary, 0, "500", false},
		{503, "120", notify.Temporary, 2 * time.Minute, "503", false},
	} {
		s, db := newService(t), &stored{}
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Retry-After", tc.after)
			w.Header().Set("Location", "/browser-1")
			w.WriteHeader(tc.status)
			if tc.status != 204 {
				fmt.Fprint(w, "because of ", r.URL.Path)
			}
			return true
		}
		r := deliver(t, newChannel(t, push.Options{Store: db}), message(s.subscribe("ann")))
		if r.Verdict != tc.want || r.RetryAfter != tc.retry || !strings.Contains(r.Reason, tc.says) ||
			strings.Contains(r.Reason, "browser-0") || (len(db.deleted) == 1) != tc.deleted {
			t.Errorf("%d: %+v, deleted %v", tc.status, r, db.deleted)
		}
	}
}

// TestSomeFail has two browsers of which one does not answer: the other one gets the message once, and after some
// attempts it counts as delivered.
func TestSomeFail(t *testing.T) {
	t.Parallel()
	s, db := newService(t), &stored{}
	phone, laptop := s.subscribe("ann"), s.subscribe("ann")
	s.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(phone.Endpoint, r.URL.Path) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	c := newChannel(t, push.Options{Store: db, Breaker: failover.Options{Failures: 100}})
	o := message(phone, laptop)
	r := deliver(t, c, o)
	if r.Verdict != notify.Temporary || !strings.HasPrefix(r.Reason, "1 of 2 browsers have it: ") || r.Untried {
		t.Fatalf("%+v", r)
	}
	if got := db.accepted[1]; !slices.Equal(got, []string{laptop.ID}) {
		t.Fatalf("remembered %v", got)
	}
	o.Browsers[1].Has, o.Attempt = []int64{1}, 5
	if r = deliver(t, c, o); r.Verdict != notify.Accepted ||
		!strings.HasPrefix(r.Via, "accepted by 1 of 2 browsers; not by ") {
		t.Errorf("at last: %+v", r)
	}
	if s.got["m-1"] != 1 {
		t.Errorf("the laptop got it %d times", s.got["m-1"])
	}
	o.Attempt, s.answer = 2, nil
	if r = deliver(t, c, o); r.Verdict != notify.Accepted || s.got["m-1"] != 2 || len(db.accepted[1]) != 1 {
		t.Errorf("when it answers: %+v, %v, %v", r, s.got, db.accepted)
	}
	// One that is gone does not keep the message from being delivered.
	gone := phone
	gone.Endpoint = s.URL + "/none"
	o = message(gone, laptop)
	if r = deliver(t, c, o); r.Verdict != notify.Accepted || len(db.deleted) != 1 {
		t.Errorf("one is gone: %+v, deleted %v", r, db.deleted)
	}
}

// TestHanging has a push service that does not answer: it is left alone for a while, for this client only.
func TestHanging(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.hang(true)
	clock := testkit.NewClock(time.Now())
	c := newChannel(t, push.Options{Now: clock.Now, Breaker: failover.Options{Failures: 2},
		Client: outbound.New(outbound.Options{Private: true, Timeout: 100 * time.Millisecond})})
	b := s.subscribe("ann")
	for range 2 {
		if r := deliver(t, c, message(b)); r.Verdict != notify.Temporary || !strings.Contains(r.Reason, "no answer") ||
			strings.Contains(r.Reason, "browser-0") {
			t.Fatalf("%+v", r)
		}
	}
	s.hang(false)
	if r := deliver(t, c, message(b)); r.Verdict != notify.Temporary || !strings.Contains(r.Reason, "left alone") {
		t.Errorf("while it is left alone: %+v", r)
	}
	other := message(b)
	other.ClientID = "other"
	deliverOne(t, s, c, other)
	clock.Advance(time.Hour)
	all := make([]notify.Outgoing, 20) // one tries it, and those behind it lose no attempt
	for i := range all {
		all[i] = message(b)
	}
	results := make([]notify.Result, len(all))
	c.Deliver(t.Context(), all, func(i int, r notify.Result) { results[i] = r })
	for i, r := range results {
		if r.Verdict != notify.Accepted && !r.Untried {
			t.Errorf("message %d to a push service that answers again: %+v", i, r)
		}
	}
	deliverOne(t, s, c, message(b))
}

// TestPrivate sees that an endpoint in a private network is not called.
func TestPrivate(t *testing.T) {
	t.Parallel()
	s := newService(t)
	c := newChannel(t, push.Options{Client: outbound.New(outbound.Options{})})
	r := deliver(t, c, message(s.subscribe("ann")))
	if r.Verdict != notify.Temporary || len(s.pushed) > 0 || strings.Contains(r.Reason, "browser-0") {
		t.Errorf("%+v", r)
	}
}

// TestKeys: the key pair is that of the database, on every server.
func TestKeys(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	a, err := push.NewKeys(key, "ops@example.com", nil)
	b, err2 := push.NewKeys(key, "https://ops.example.com", nil)
	other, err3 := push.NewKeys(bytes.Repeat([]byte{8}, 32), "ops@example.com", nil)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(a.Public())
	if a.Public() != b.Public() || a.Public() == other.Public() || err != nil || len(raw) != 65 {
		t.Errorf("public keys are %s, %s and %s", a.Public(), b.Public(), other.Public())
	}
	if _, err := push.NewKeys(key[:5], "", nil); err == nil {
		t.Error("a short key was taken")
	}
}
