package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/notifydb"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

func testIDs(t testing.TB) *notify.IDs {
	t.Helper()
	ids, err := notify.NewIDs(bytes.Repeat([]byte{9}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// forTests fills in what New would, without a store.
func (o Options) forTests() Options {
	o.Now = time.Now
	return o
}

// watched is a store that tells when outcomes were recorded, and fails on
// demand.
type watched struct {
	notify.Store
	mu      sync.Mutex
	changed chan struct{}
	fail    map[string]error
	asked   atomic.Int64 // calls of Unsubscribed
}

func (w *watched) failing(method string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail[method] = err
}

func (w *watched) broken(method string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail[method]
}

func (w *watched) signal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *watched) Finish(ctx context.Context, all []notify.Outcome,
	makeCallbacks notify.CallbackMaker) ([]notify.Claimed, error) {
	if err := w.broken("Finish"); err != nil {
		return nil, err
	}
	changed, err := w.Store.Finish(ctx, all, makeCallbacks)
	if err == nil {
		w.signal()
	}
	return changed, err
}

func (w *watched) Extend(ctx context.Context, send int64, from notify.Cursor, more []notify.Recipient, to notify.Cursor,
	expanded bool) error {
	if err := w.broken("Extend"); err != nil {
		return err
	}
	if err := w.broken("Extend by some"); err != nil && len(more) > 0 {
		return err
	}
	err := w.Store.Extend(ctx, send, from, more, to, expanded)
	if err == nil {
		w.signal()
	}
	return err
}

func (w *watched) Unsubscribed(ctx context.Context, of []notify.Subscription) (
	map[notify.Subscription]notify.Choice, error) {
	if err := w.broken("Unsubscribed"); err != nil {
		return nil, err
	}
	w.asked.Add(1)
	return w.Store.Unsubscribed(ctx, of)
}

// until waits for something to come true by an outcome.
func (w *watched) until(t testing.TB, what string, true func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Minute)
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if true() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// people is a directory: users have addresses, everyone is everyone, spaces have
// the first so many users.
type people struct {
	mu     sync.Mutex
	emails map[string]string
	// locales are the languages of users.
	locales map[string]string
	// noLocales is why they cannot be looked up.
	noLocales error
	// phones are the phone numbers of users.
	phones map[string]string
	order  []string
	down   error
	// asked is told of each question, when it is set.
	asked  chan string
	lookup int
	// withoutEmails makes Page leave them out.
	withoutEmails bool
}

func newPeople(n int) *people {
	p := &people{emails: map[string]string{}}
	for i := range n {
		id := fmt.Sprintf("user-%07d", i)
		p.emails[id] = fmt.Sprintf("user%d@example.com", i)
		p.order = append(p.order, id)
	}
	return p
}

func (p *people) set(down error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *people) ask(question string) error {
	p.mu.Lock()
	down, asked := p.down, p.asked
	p.mu.Unlock()
	if asked != nil {
		asked <- question
	}
	return down
}

func (p *people) Resolve(_ context.Context, a notify.Audience) (notify.Audience, error) {
	if err := p.ask("resolve"); err != nil {
		return a, err
	}
	if a.Type == notify.ToSpace {
		a.SpaceName, a.OrgName, a.OrgID = "space "+a.ID, "the org", "org-guid"
	}
	return a, nil
}

func (p *people) Page(_ context.Context, a notify.Audience, cursor string, limit int) ([]notify.Recipient,
	string, error) {
	if err := p.ask("page " + string(a.Type)); err != nil {
		return nil, "", err
	}
	size := len(p.order)
	if a.Type == notify.ToSpace {
		n, err := strconv.Atoi(a.ID)
		if err != nil {
			return nil, "", fault.New(fault.NotFound, "no such space")
		}
		size = n
	}
	from, _ := strconv.Atoi(cursor) //nolint:errcheck // empty is 0
	to := min(from+limit, size)
	page := make([]notify.Recipient, 0, to-from)
	for _, id := range p.order[from:to] {
		r := notify.Recipient{UserID: id}
		if !p.withoutEmails {
			r.Email = p.emails[id]
		}
		page = append(page, r)
	}
	if to == size {
		return page, "", nil
	}
	return page, strconv.Itoa(to), nil
}

// Locales are in locales, by user.
func (p *people) Locales(_ context.Context, ids []string) (map[string]string, error) {
	if err := p.ask("locales"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]string{}
	for _, id := range ids {
		found[id] = p.locales[id]
	}
	return found, p.noLocales
}

func (p *people) setLocales(down error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noLocales = down
}

// Phones are in phones, by user.
func (p *people) Phones(_ context.Context, ids []string) (map[string]string, error) {
	if err := p.ask("phones"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found := map[string]string{}
	for _, id := range ids {
		if _, known := p.emails[id]; known {
			found[id] = p.phones[id]
		}
	}
	return found, nil
}

func (p *people) Emails(_ context.Context, ids []string) (map[string]string, error) {
	if err := p.ask("emails"); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookup++
	found := map[string]string{}
	for _, id := range ids {
		if email, ok := p.emails[id]; ok {
			found[id] = email
		}
	}
	return found, nil
}

// post is a channel.
type post struct {
	mu   sync.Mutex
	sent []notify.Outgoing
	// say decides; without it everything is accepted.
	say func(o notify.Outgoing) notify.Result
	// forget drops what was sent, when only the number counts.
	forget bool
	count  int
}

func (p *post) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	for i, o := range batch {
		if ctx.Err() != nil {
			done(i, notify.Result{Verdict: notify.Temporary, Reason: "stopped"})
			continue
		}
		r := notify.Result{Verdict: notify.Accepted}
		if p.say != nil {
			r = p.say(o)
		}
		p.mu.Lock()
		if r.Verdict == notify.Accepted {
			p.count++
			if !p.forget {
				p.sent = append(p.sent, o)
			}
		}
		p.mu.Unlock()
		done(i, r)
	}
}

func (p *post) all() []notify.Outgoing {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent)
}

// world is a whole delivery on a real store.
type world struct {
	t       testing.TB
	store   *watched
	people  *people
	post    *post
	ids     *notify.IDs
	unsub   *actions.Unsubscriber
	service *actions.Service
	*Delivery
	options Options
}

type setup struct {
	people  *people
	limit   int
	db      *db.DB // an SQLite database of its own without
	channel notify.Channel
	change  func(*Options)
	now     func() time.Time // of the store
}

func newWorld(t testing.TB, s setup) *world {
	t.Helper()
	ctx := context.Background()
	if s.db == nil {
		s.db = dbtest.New(t, db.SQLite)
	}
	real, err := notifydb.Open(ctx, s.db, notifydb.Options{QueueLimit: s.limit, Now: s.now})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, people: s.people, post: &post{}, ids: testIDs(t)}
	w.store = &watched{Store: real, changed: make(chan struct{}), fail: map[string]error{}}
	if w.people == nil {
		w.people = newPeople(10)
	}
	if w.unsub, err = actions.NewUnsubscriber(bytes.Repeat([]byte{5}, 32)); err != nil {
		t.Fatal(err)
	}
	err = w.store.Register(ctx, notify.Client{ID: "shop", Description: "The Shop", TemplateID: notify.DefaultTemplate},
		[]notify.Kind{
			{ClientID: "shop", ID: "news", Description: "News", TemplateID: notify.DefaultTemplate},
			{ClientID: "shop", ID: "alarm", Description: "Alarm", Critical: true, TemplateID: notify.DefaultTemplate},
		}, false)
	if err != nil {
		t.Fatal(err)
	}
	w.options = Options{
		Store: w.store, Directory: w.people, Channel: w.post, IDs: w.ids, Unsubscriber: w.unsub,
		From: "no-reply@example.com", Domain: "example.com", BaseURL: "https://notifications.example.com/",
		Dir:      t.TempDir(),
		Schedule: Schedule{First: time.Millisecond, Longest: 20 * time.Millisecond, Attempts: 4},
		Log:      slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if s.channel != nil {
		w.options.Channel = s.channel
	}
	if s.change != nil {
		s.change(&w.options)
	}
	w.renew()
	return w
}

// renew makes a new Delivery on the same store and folder.
func (w *world) renew() {
	w.options.Extended = func(client string, n int) { w.service.Extended(client, n) }
	w.Delivery = New(w.options)
	d := w.Delivery
	w.service = actions.New(actions.Options{Store: w.store, Directory: w.people, IDs: w.ids, Kick: d.Kick})
	w.t.Cleanup(d.Stop)
}

func (w *world) start() {
	w.t.Helper()
	if err := w.Start(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

func to(kind notify.AudienceType, id string) func(*actions.Request) {
	return func(r *actions.Request) { r.Audiences = []notify.Audience{{Type: kind, ID: id}} }
}

// send sends as the shop, which may do everything, and returns the number.
func (w *world) send(changes ...func(*actions.Request)) int64 {
	w.t.Helper()
	r := actions.Request{
		Client: "shop", KindID: "news", MayCritical: true, RequestID: "r",
		Audiences: []notify.Audience{{Type: notify.ToUser, ID: "user-0000000"}},
		Content:   notify.Content{Subject: "Hello", Text: "the text"},
	}
	for _, change := range changes {
		change(&r)
	}
	got, err := w.service.Send(context.Background(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return got.Send.Number
}

func (w *world) counts(send int64) notify.Counts {
	w.t.Helper()
	s, err := w.store.Send(context.Background(), send)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Counts
}

// finish waits until all messages of a send have come to their end.
func (w *world) finish(send int64) notify.Counts {
	w.t.Helper()
	w.store.until(w.t, "send "+strconv.FormatInt(send, 10)+" is finished", func() bool {
		s, err := w.store.Send(context.Background(), send)
		if err != nil {
			w.t.Fatal(err)
		}
		return s.Expanded && s.Counts.Queued+s.Counts.Retry == 0
	})
	return w.counts(send)
}

func (w *world) message(send int64, i int) notify.Message {
	w.t.Helper()
	m, _, err := w.store.Message(context.Background(), notify.MessageNumber(send, i))
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

var errAway = fault.Wrap(errors.New("connection refused"), fault.Unavailable,
	"the authorization server does not answer")

// testWriter shows the log of a test that fails.
type testWriter struct{ testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.TB.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}
