package actions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// shelf is as much of a store as accepting needs; everything else panics.
type shelf struct {
	notify.Store
	mu       sync.Mutex
	clients  map[string]notify.Client
	kinds    map[notify.KindRef]notify.Kind
	accepted []notify.NewSend
	refuse   error
	messages []notify.Message
	expanded bool
	keys     map[string]string
	// blind does not find keys before Accept, as when two come at once.
	blind bool
}

func (s *shelf) Registration(_ context.Context, ref notify.KindRef) (notify.Client, notify.Kind, error) {
	return s.clients[ref.ClientID], s.kinds[ref], nil
}

func (s *shelf) Repeated(_ context.Context, _ string, k notify.Idempotency) (notify.Send, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hash, ok := s.keys[k.Key]
	switch {
	case !ok || s.blind:
		return notify.Send{}, false, nil
	case hash != k.Hash:
		return notify.Send{}, false, notify.ErrKeyReused
	}
	return s.accepted[0].Send, true, nil
}

func (s *shelf) Accept(_ context.Context, n notify.NewSend) (notify.Send, bool, error) {
	if s.refuse != nil {
		return notify.Send{}, false, fmt.Errorf("accept: %w", s.refuse)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := n.Idempotency; k.Key != "" {
		switch hash, ok := s.keys[k.Key]; {
		case ok && hash == k.Hash:
			return s.accepted[0].Send, true, nil
		case ok:
			return notify.Send{}, false, notify.ErrKeyReused
		}
		s.keys[k.Key] = k.Hash
	}
	n.Number = int64(len(s.accepted) + 1)
	s.accepted = append(s.accepted, n)
	return n.Send, false, nil
}

func (s *shelf) Send(context.Context, int64) (notify.Send, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return notify.Send{Expanded: s.expanded}, nil
}

func (s *shelf) MessagesOf(_ context.Context, _, after int64, limit int) ([]notify.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.messages, func(m notify.Message) bool { return m.Number > after })
	if i < 0 {
		return nil, nil
	}
	return slices.Clone(s.messages[i:min(len(s.messages), i+limit)]), nil
}

// book is a directory of spaces with users u0, u1, ….
type book struct {
	sizes map[string]int
	pages int
}

func (b *book) Resolve(_ context.Context, a notify.Audience) (notify.Audience, error) {
	if _, ok := b.sizes[a.ID]; !ok {
		return a, fault.New(fault.NotFound, "CloudController Failure: Space %q could not be found", a.ID)
	}
	a.SpaceName = "name of " + a.ID
	return a, nil
}

func (b *book) Page(_ context.Context, a notify.Audience, cursor string, limit int) ([]notify.Recipient, string,
	error) {
	b.pages++
	from := 0
	if cursor != "" {
		fmt.Sscan(cursor, &from) //nolint:errcheck // our own
	}
	size, ok := b.sizes[a.ID]
	if !ok {
		return nil, "", fault.New(fault.NotFound, "gone")
	}
	var all []notify.Recipient
	for i := from; i < min(from+limit, size); i++ {
		all = append(all, notify.Recipient{UserID: fmt.Sprintf("u%d", i)})
	}
	next := ""
	if from+limit < size {
		next = fmt.Sprint(from + limit)
	}
	return all, next, nil
}

func (b *book) Locales(context.Context, []string) (map[string]string, error) { return nil, nil }

func (b *book) Emails(context.Context, []string) (map[string]string, error) { return nil, nil }
func (b *book) Phones(context.Context, []string) (map[string]string, error) { return nil, nil }

type bundle struct {
	*Service
	shelf *shelf
	book  *book
	kicks int
}

func newBundle(t *testing.T, l Limits) *bundle {
	t.Helper()
	ids, err := notify.NewIDs(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{
		shelf: &shelf{
			clients: map[string]notify.Client{"shop": {ID: "shop", Description: "The Shop"}},
			kinds: map[notify.KindRef]notify.Kind{
				{ClientID: "shop", KindID: "news"}:  {ClientID: "shop", ID: "news", Description: "News"},
				{ClientID: "shop", KindID: "bare"}:  {ClientID: "shop", ID: "bare"},
				{ClientID: "shop", KindID: "alarm"}: {ClientID: "shop", ID: "alarm", Critical: true},
			},
			keys: map[string]string{},
		},
		book: &book{sizes: map[string]int{"small": 3, "full": 1000, "large": 2500, "empty": 0}},
	}
	b.Service = New(Options{
		Store: b.shelf, Directory: b.book, IDs: ids, Limits: l,
		Kick: func() { b.kicks++ },
	})
	return b
}

func request(change func(*Request)) Request {
	r := Request{
		Client: "shop", KindID: "news", RequestID: "req",
		Audiences: []notify.Audience{{Type: notify.ToUser, ID: "u1"}},
		Content:   notify.Content{Subject: "Hello", Text: "text"},
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestSendRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Request)
		code   fault.Code
		says   string
	}{
		"unregistered kind": {func(r *Request) { r.KindID = "zz" }, fault.Unprocessable,
			`The kind "zz" is not registered for the client "shop", so nothing was sent: register it with PUT /notifications first`},
		"unregistered client": {func(r *Request) { r.Client = "other" }, fault.Unprocessable, `for the client "other"`},
		"no kind":             {func(r *Request) { r.KindID = "" }, fault.Unprocessable, `"kind_id" is a required field`},
		"unregistered kind to an address": {func(r *Request) {
			r.KindID, r.Audiences = "zz", []notify.Audience{{Type: notify.ToEmail, ID: "a@example.com"}}
		}, fault.Unprocessable, "PUT /notifications"},
		"critical": {func(r *Request) { r.KindID = "alarm" }, fault.Unprocessable,
			"Insufficient privileges to send notification alarm"},
		"critical campaign": {func(r *Request) { r.KindID, r.Campaign = "", &notify.CampaignType{ID: "ct", Critical: true} },
			fault.Forbidden,
			"Scope critical_notifications.write is required"},
		"line break in subject": {func(r *Request) { r.Content.Subject = "a\r\nBcc: b@example.com" }, fault.Unprocessable,
			`"subject" must be a single line`},
		"line feed in subject": {func(r *Request) { r.Content.Subject = "a\nb" }, fault.Unprocessable,
			`"subject" must be a single line`},
		"line break in reply_to": {func(r *Request) { r.Content.ReplyTo = "a@example.com\nBcc: x@y" }, fault.Unprocessable,
			`"reply_to" must be a single line`},
		"reply_to": {func(r *Request) { r.Content.ReplyTo = "nobody" }, fault.Unprocessable,
			`"reply_to" is not an email address`},
		"long subject": {func(r *Request) { r.Content.Subject = strings.Repeat("x", 2001) }, fault.Unprocessable,
			`"subject" is 2001 bytes long`},
		"long text": {func(r *Request) { r.Content.Text = strings.Repeat("x", 1<<20+1) }, fault.Unprocessable,
			`"text" is 1048577 bytes long`},
		"long html": {func(r *Request) { r.Content.HTML = strings.Repeat("x", 1<<20+1) }, fault.Unprocessable,
			`"html" is 1048577 bytes long`},
		"bad address": {func(r *Request) { r.Audiences = []notify.Audience{{Type: notify.ToEmail, ID: "a@b, c@d"}} },
			fault.Unprocessable, `"a@b, c@d" is not a valid email address`},
		"long key": {func(r *Request) { r.IdempotencyKey = strings.Repeat("k", 256) }, fault.Unprocessable,
			"Idempotency-Key is 256 bytes"},
		"many audiences": {func(r *Request) { r.Audiences = make([]notify.Audience, 10_001) }, fault.Unprocessable,
			"10001 audiences"},
		"unknown space": {func(r *Request) {
			r.Audiences = []notify.Audience{{Type: notify.ToSpace, ID: "x"}}
		}, fault.NotFound,
			`Space "x" could not be found`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBundle(t, Limits{})
			_, err := b.Send(context.Background(), request(c.change))
			if !fault.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %s with %q", err, c.code, c.says)
			}
			if len(b.shelf.accepted) != 0 || b.kicks != 0 {
				t.Error("it was sent nevertheless")
			}
		})
	}
}

func TestSendAccepts(t *testing.T) {
	t.Parallel()
	space := func(ids ...string) []notify.Audience {
		var all []notify.Audience
		for _, id := range ids {
			all = append(all, notify.Audience{Type: notify.ToSpace, ID: id})
		}
		return all
	}
	for name, c := range map[string]struct {
		change     func(*Request)
		recipients int
		expanded   bool
		cursor     notify.Cursor
		check      func(t *testing.T, n notify.NewSend)
	}{
		"a user": {nil, 1, true, notify.Cursor{Audience: 1}, func(t *testing.T, n notify.NewSend) {
			if n.KindDescription != "News" || n.SourceDescription != "The Shop" || n.Critical || n.RequestID != "req" {
				t.Errorf("got %+v", n.Send)
			}
		}},
		"blank subject": {func(r *Request) { r.Content.Subject = " \t" }, 1, true, notify.Cursor{Audience: 1},
			func(t *testing.T, n notify.NewSend) {
				if n.Content.Subject != "[no subject]" {
					t.Errorf("subject %q", n.Content.Subject)
				}
			}},
		"descriptions fall back": {func(r *Request) { r.KindID = "bare" }, 1, true, notify.Cursor{Audience: 1},
			func(t *testing.T, n notify.NewSend) {
				if n.KindDescription != "bare" {
					t.Errorf("kind description %q", n.KindDescription)
				}
			}},
		"an address without a kind": {func(r *Request) {
			r.Client, r.KindID, r.Audiences = "other", "", []notify.Audience{{Type: notify.ToEmail, ID: "a@example.com"}}
		}, 1, true, notify.Cursor{Audience: 1}, func(t *testing.T, n notify.NewSend) {
			if n.SourceDescription != "other" || n.Recipients[0].Email != "a@example.com" {
				t.Errorf("got %+v", n)
			}
		}},
		"critical with the scope": {func(r *Request) { r.KindID, r.MayCritical = "alarm", true }, 1, true,
			notify.Cursor{Audience: 1}, func(t *testing.T, n notify.NewSend) {
				if !n.Critical {
					t.Error("not critical")
				}
			}},
		"a space": {func(r *Request) { r.Audiences = space("small") }, 3, true, notify.Cursor{Audience: 1},
			func(t *testing.T, n notify.NewSend) {
				if n.Audiences[0].SpaceName != "name of small" {
					t.Errorf("audience %+v", n.Audiences[0])
				}
			}},
		"a space without members": {func(r *Request) { r.Audiences = space("empty") }, 0, true,
			notify.Cursor{Audience: 1}, nil},
		"exactly one page": {func(r *Request) { r.Audiences = space("full") }, 1000, true,
			notify.Cursor{Audience: 1}, nil},
		"a large space": {func(r *Request) { r.Audiences = space("large") }, 1000, false,
			notify.Cursor{Page: "1000"}, nil},
		"a large space, later": {func(r *Request) { r.Audiences, r.Async = space("large"), true }, 0, false,
			notify.Cursor{}, nil},
		"members once": {func(r *Request) {
			r.Audiences = append(space("small", "small"), notify.Audience{Type: notify.ToUser, ID: "u2"})
		},
			3, true, notify.Cursor{Audience: 3}, func(t *testing.T, n notify.NewSend) {
				want := []notify.Recipient{{UserID: "u0", Audience: 1}, {UserID: "u1", Audience: 1}, {UserID: "u2", Audience: 2}}
				if !slices.Equal(n.Recipients, want) {
					t.Errorf("got %v, want %v", n.Recipients, want)
				}
			}},
		"a campaign with an unknown space": {func(r *Request) {
			r.KindID, r.Campaign = "", &notify.CampaignType{ID: "ct", SenderID: "s"}
			r.Audiences = append([]notify.Audience{{Type: notify.ToUser, ID: "u7"}}, space("gone", "small")...)
		}, 1, false, notify.Cursor{Audience: 1}, func(t *testing.T, n notify.NewSend) {
			if n.CampaignTypeID != "ct" || n.SenderID != "s" || n.KindDescription != "" || n.SourceDescription != "shop" ||
				n.Preferred() != (notify.KindRef{KindID: "ct"}) {
				t.Errorf("got %+v", n.Send)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBundle(t, Limits{})
				got, err := b.Send(context.Background(), request(c.change))
				if err != nil {
					t.Fatal(err)
				}
				n := b.shelf.accepted[0]
				if len(n.Recipients) != c.recipients || n.Expanded != c.expanded || n.Cursor != c.cursor {
					t.Errorf("%d recipients, expanded %t, cursor %+v; want %d, %t, %+v", len(n.Recipients), n.Expanded, n.Cursor,
						c.recipients, c.expanded, c.cursor)
				}
				if got.Send.Number != 1 || got.Replayed || b.kicks != 1 || !n.Received.Equal(time.Now()) {
					t.Errorf("receipt %+v, %d kicks", got, b.kicks)
				}
				if c.check != nil {
					c.check(t, n)
				}
			})
		})
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, Limits{})
		r := request(func(r *Request) { r.IdempotencyKey, r.Hash = "k", "h1" })
		for i, replayed := range []bool{false, true, true} {
			b.shelf.blind = i == 1
			if i == 2 { // what was answered stays, though the kind is gone
				clear(b.shelf.kinds)
			}
			got, err := b.Send(context.Background(), r)
			if err != nil || got.Replayed != replayed || got.Send.Number != 1 {
				t.Errorf("%d: got %+v, %v", i, got, err)
			}
		}
		if until := b.shelf.accepted[0].Idempotency.Until; !until.Equal(time.Now().Add(24 * time.Hour)) {
			t.Errorf("the key is kept until %s", until)
		}
		r.Hash = "h2"
		if _, err := b.Send(context.Background(), r); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), `"k"`) {
			t.Errorf("another request under the same key: %v", err)
		}
	})
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Limits{Queue: 77, Recipients: 10})
	b.shelf.refuse = notify.ErrQueueFull
	for range 20 { // what was refused does not count
		_, err := b.Send(context.Background(), request(nil))
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != fault.Unavailable || e.RetryAfter <= 0 || !strings.Contains(e.Message, "77") {
			t.Fatalf("got %v", err)
		}
	}
	b.shelf.refuse = errors.New("disk on fire")
	if _, err := b.Send(context.Background(), request(nil)); fault.CodeOf(err) != fault.Internal {
		t.Errorf("got %v", err)
	}
}

// Delayed messages of one client never fill the queue, however small it is.
func TestDelayedPart(t *testing.T) {
	t.Parallel()
	for l, want := range map[Limits]int{
		{}:                         2_000_000,
		{Queue: 5_000_000}:         2_000_000,
		{Queue: 100}:               40,
		{Queue: 1}:                 1,
		{Queue: 100, Delayed: 70}:  70,
		{Queue: 100, Delayed: -1}:  -1,
		{Queue: -1}:                2_000_000,
		{Queue: 1 << 40}:           2_000_000,
		{Scheduled: 5, Queue: 500}: 200,
	} {
		if got := l.withDefaults().Delayed; got != want {
			t.Errorf("%+v: %d delayed messages, want %d", l, got, want)
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, Limits{Requests: 2, Burst: 4})
		if got, want := b.RateLimit("shop"), (RateLimit{Limit: 4, Remaining: 4}); got != want {
			t.Errorf("at first %+v, want %+v", got, want)
		}
		for range 4 {
			if _, err := b.Send(context.Background(), request(nil)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := b.Send(context.Background(), request(nil))
		var e *fault.Error
		if !errors.As(err, &e) || e.Code != fault.RateLimited || e.RetryAfter != time.Second {
			t.Errorf("got %v, want to come again in a second", err)
		}
		if got, want := b.RateLimit("shop"), (RateLimit{Limit: 4, Reset: 2 * time.Second}); got != want {
			t.Errorf("used up: %+v, want %+v", got, want)
		}
		<-time.After(500 * time.Millisecond)
		if _, err := b.Send(context.Background(), request(nil)); err != nil {
			t.Errorf("half a second later: %v", err)
		}
		if got := b.RateLimit("other"); got.Remaining != 4 {
			t.Errorf("another client has %+v", got)
		}
		if got := newBundle(t, Limits{Requests: -1}).RateLimit("shop"); got != (RateLimit{}) {
			t.Errorf("without a limit: %+v", got)
		}
	})
}

func TestQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, Limits{Recipients: 1200})
		to := func(space string, async bool) error {
			_, err := b.Send(context.Background(), request(func(r *Request) {
				r.Async, r.Audiences = async, []notify.Audience{{Type: notify.ToSpace, ID: space}}
			}))
			return err
		}
		limited := func(err error) bool {
			var e *fault.Error
			return errors.As(err, &e) && e.Code == fault.RateLimited && e.RetryAfter > 0
		}
		if err := to("full", false); err != nil {
			t.Fatal(err)
		}
		if err := to("full", false); !limited(err) {
			t.Errorf("1000 when 200 are left: %v", err)
		}
		if err := to("small", false); err != nil {
			t.Errorf("3 when 200 are left: %v", err)
		}
		if err := to("large", true); err != nil {
			t.Errorf("an unknown number when some are left: %v", err)
		}
		b.Extended("shop", 2500) // found later: a debt
		if err := to("large", true); !limited(err) {
			t.Errorf("when nothing is left: %v", err)
		}
		<-time.After(72 * time.Hour)
		if err := to("full", false); err != nil {
			t.Errorf("days later: %v", err)
		}
	})
}

func TestMessagesWaitForTheExpansion(t *testing.T) {
	t.Parallel()
	b := newBundle(t, Limits{})
	add := func(n int, expanded bool) {
		b.shelf.mu.Lock()
		for range n {
			b.shelf.messages = append(b.shelf.messages, notify.Message{Number: int64(len(b.shelf.messages))})
		}
		b.shelf.expanded = expanded
		b.shelf.mu.Unlock()
	}
	add(1500, false)
	var got int64
	err := b.Messages(context.Background(), 1, func(m notify.Message) error {
		if m.Number != got {
			t.Fatalf("message %d after %d", m.Number, got-1)
		}
		got++
		switch got {
		case 1500:
			go func() { add(2500, false); b.Extended("shop", 2500) }()
		case 4000:
			go func() { add(1, true); b.Extended("shop", 1) }()
		}
		return nil
	})
	if err != nil || got != 4001 {
		t.Errorf("%d messages, %v", got, err)
	}

	b = newBundle(t, Limits{})
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("the caller has gone")
	cancel(gone)
	if err := b.Messages(ctx, 1, nil); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestUnsubscriber(t *testing.T) {
	t.Parallel()
	u, err := NewUnsubscriber(bytes.Repeat([]byte{3}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewUnsubscriber(bytes.Repeat([]byte{4}, 32))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[^\x00]{0,40}`)
		g := Grant{UserID: text.Draw(t, "user"), Kind: notify.KindRef{ClientID: text.Draw(t, "client"),
			KindID: text.Draw(t, "kind")}, OnlyKind: rapid.Bool().Draw(t, "only the kind")}
		token := u.Make(g)
		if strings.ContainsAny(token, "+/=?&# \r\n") {
			t.Fatalf("%q does not fit into a URL", token)
		}
		got, err := u.Open(token)
		if err != nil || got != g {
			t.Fatalf("got %v, %v, want %v", got, err, g)
		}
		if token != u.Make(g) {
			t.Fatal("the token differs the second time")
		}
		if _, err := other.Open(token); !errors.Is(err, ErrToken) {
			t.Fatalf("another key: %v", err)
		}
		at := rapid.IntRange(0, len(token)-1).Draw(t, "at")
		changed := []byte(token)
		changed[at] ^= 1
		if _, err := u.Open(string(changed)); !errors.Is(err, ErrToken) {
			t.Fatalf("changed: %v", err)
		}
	})
	for _, bad := range []string{"", "x", "====", strings.Repeat("A", 200)} {
		if _, err := u.Open(bad); !errors.Is(err, ErrToken) {
			t.Errorf("opening %q: error is %v, want %v", bad, err, ErrToken)
		}
	}
}

// Each of several servers has its part of a client's quota; a request that is larger than
// the part passes while the part is whole.
func TestQuotaOfSeveralServers(t *testing.T) {
	t.Parallel()
	servers, now := 2, time.Now()
	q := newQuotas(Limits{Requests: 10, Burst: 20, Recipients: 100}.withDefaults(), func() int { return servers })
	if got := q.state("c", now).Limit; got != 10 {
		t.Errorf("got a limit of %d at one of two servers, want 10", got)
	}
	if err := q.recipients("c", 80, now); err != nil {
		t.Errorf("80 of 100 recipients: %v, want nil", err)
	}
	if err := q.recipients("c", 1, now); err == nil {
		t.Error("one more at the same server: got nil, want an error")
	}
	q.giveBack("c", 80, now)
	if err := q.recipients("c", 50, now); err != nil {
		t.Errorf("50 recipients after 80 were given back: %v, want nil", err)
	}
	servers = 1
	if got := q.state("c", now).Limit; got != 20 {
		t.Errorf("got a limit of %d at the only server, want 20", got)
	}
}
