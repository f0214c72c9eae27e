package delivery

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/inbox"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/mail/smtp"
	"ingot/internal/notify/notifydb"
	"ingot/internal/notify/outbound"
)

// childVariable makes the test binary a server that delivers until it is killed.
const childVariable = "INGOT_DELIVERY_TEST_CHILD"

// victim is what such a server is given.
type victim struct {
	Database, Key, Dir, SMTP string
	Users                    int
	// Routes are mail servers instead of SMTP. Each Slow-th user has an address at slow.example then, the others at
	// several domains, and a message is late after Late.
	Routes []mail.Route
	Slow   int
	Late   time.Duration
	// Accepts makes it accept sends instead, and print the number of each.
	Accepts bool
	// Uploads makes it accept sends with lists of so many recipients, and print the number of each.
	Uploads int
	// Erases makes it erase the user dora, and print a line when so many of her messages are erased.
	Erases int
}

const connections = 8

// open opens the store; close it by closing the database.
func (v victim) open(ctx context.Context) (*db.DB, *notifydb.Store, error) {
	keys, err := seal.Parse(v.Key)
	if err != nil {
		return nil, nil, err
	}
	d, err := db.Open(ctx, db.Options{URL: v.Database, Keys: keys})
	if err != nil {
		return nil, nil, err
	}
	store, err := notifydb.Open(ctx, d, notifydb.Options{})
	return d, store, err
}

func (v victim) run(ctx context.Context) error {
	_, store, err := v.open(ctx)
	if err != nil {
		return err
	}
	if v.Accepts {
		return v.accept(ctx, store)
	}
	if v.Erases > 0 {
		return v.erase(ctx, store)
	}
	if v.Uploads > 0 {
		return v.upload(ctx, store)
	}
	key, err := store.IDKey(ctx)
	if err != nil {
		return err
	}
	ids, err := notify.NewIDs(key)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	o := mail.Options{URL: v.SMTP, Identity: mail.Identity{From: "a@example.com"}, Log: log}
	if v.Routes != nil {
		o.Plan.Routes = v.Routes
		o.Tune = func(c *smtp.Config) { c.Late, c.Pause = v.Late, 100*time.Millisecond }
	}
	channel, err := mail.NewChannel(o)
	if err != nil {
		return err
	}
	d := New(Options{
		Store: store, Directory: v.people(), Channel: channel, IDs: ids, Dir: v.Dir, Log: log,
		Batch: 100, Chunk: 300, Schedule: Schedule{First: 20 * time.Millisecond, Longest: time.Second, Attempts: 1000},
		Webhooks: outbound.Options{Private: true},
		More: map[notify.ChannelID]notify.Channel{notify.Inbox: inbox.NewChannel(store, inbox.NewHub(inbox.Options{
			Store: store}))},
	})
	if err := background.NewGroup(channel, d).Start(ctx); err != nil {
		return err
	}
	// The parent ends it; should the parent end first, its end of the pipe does.
	os.Stdin.Read(make([]byte, 1)) //nolint:errcheck // any end will do
	return nil
}

// accept accepts sends, many at once, until it is killed.
func (v victim) accept(ctx context.Context, store *notifydb.Store) error {
	failed := make(chan error)
	for range 16 {
		go func() {
			for {
				send, _, err := store.Accept(ctx, notify.NewSend{Send: notify.Send{
					ClientID: "shop", KindID: "news", Audiences: []notify.Audience{{Type: notify.ToUser, ID: "u"}},
					Content: notify.Content{Subject: "Hello", Text: "text"}, Received: time.Now(), Expanded: true,
				}, Recipients: []notify.Recipient{{UserID: "u"}}})
				if err == nil {
					_, err = fmt.Fprintln(os.Stdout, send.Number)
				}
				if err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func child() int {
	var v victim
	err := json.Unmarshal([]byte(os.Getenv(childVariable)), &v)
	if err == nil {
		err = v.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the child cannot deliver:", err)
		return 1
	}
	return 0
}

// spawn starts a child.
func (v victim) spawn(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := v.command(t)
	testkit.Must(t, cmd.Start())
	return cmd
}

// command returns a child that is not started. The end of its standard input ends it.
func (v victim) command(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = testWriter{t}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestKillWhileAccepting kills the server with SIGKILL while many sends share commits: each that was
// acknowledged is in the database, with its message.
func TestKillWhileAccepting(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			v := victim{Database: dbtest.URL(t, dialect), Key: seal.NewKey(), Accepts: true}
			acknowledged := map[int64]bool{}
			for range 4 {
				cmd := v.command(t)
				out, err := cmd.StdoutPipe()
				testkit.Must(t, err)
				testkit.Must(t, cmd.Start())
				lines := bufio.NewScanner(out)
				for until := len(acknowledged) + 50 + rand.IntN(200); lines.Scan(); {
					number, err := strconv.ParseInt(lines.Text(), 10, 64)
					testkit.Must(t, err)
					acknowledged[number] = true
					if len(acknowledged) == until { // those that it prints until it is dead count too
						testkit.Must(t, cmd.Process.Kill())
					}
				}
				cmd.Wait() //nolint:errcheck // it was killed
			}
			d, store, err := v.open(t.Context())
			testkit.Must(t, err)
			defer d.Close()
			for number := range acknowledged {
				if _, err := store.Send(t.Context(), number); err != nil {
					t.Fatalf("send %d was acknowledged: %v", number, err)
				}
				if _, _, err := store.Message(t.Context(), notify.MessageNumber(number, 0)); err != nil {
					t.Fatalf("send %d was acknowledged, its message: %v", number, err)
				}
			}
			var sends, messages int
			testkit.Must(t, d.View(t.Context(), func(tx *db.Tx) error {
				return tx.QueryRow("SELECT (SELECT COUNT(*) FROM notify_sends), (SELECT COUNT(*) FROM notify_messages)").
					Scan(&sends, &messages)
			}))
			waiting, err := store.Waiting(t.Context())
			if err != nil || messages != sends || waiting != sends || sends < len(acknowledged) {
				t.Errorf("%d sends, %d messages, %d waiting, %d acknowledged, error %v", sends, messages, waiting,
					len(acknowledged), err)
			}
		})
	}
}

// TestSoakKill kills the server with SIGKILL again and again while it sends to
// everyone: everyone gets the mail, and at most one message a connection and kill
// comes twice. The client's webhook is told of every message. INGOT_SOAK=1 makes
// it the long form.
func TestSoakKill(t *testing.T) {
	t.Parallel()
	soakKill(t, func(int) []notify.NewSend {
		return []notify.NewSend{{Send: notify.Send{
			ClientID: "shop", KindID: "news", Audiences: []notify.Audience{{Type: notify.ToEveryone}},
			Content: notify.Content{Subject: "Hello", Text: "text"}, Received: time.Now(),
		}}}
	})
}

// TestSoakKillSchedule is TestSoakKill with sends to each user that are due while servers are killed.
func TestSoakKillSchedule(t *testing.T) {
	t.Parallel()
	soakKill(t, func(users int) (all []notify.NewSend) {
		for _, id := range newPeople(users).order {
			all = append(all, notify.NewSend{Send: notify.Send{
				ClientID: "shop", KindID: "news", Audiences: []notify.Audience{{Type: notify.ToUser, ID: id}},
				Content: notify.Content{Subject: "Hello", Text: "text"}, Received: time.Now(), SendAt: time.Now(),
			}, Planned: 1})
		}
		return all
	})
}

func soakKill(t *testing.T, make func(users int) []notify.NewSend) {
	t.Helper()
	users, kills := 1000, 8
	if os.Getenv("INGOT_SOAK") == "1" {
		users, kills = 10_000, 200
	}
	ctx := context.Background()
	sink := mailtest.New(t, mailtest.Options{
		Keep: 2 * users,
		// Slow enough that kills come in the middle.
		Fault: mailtest.At(mailtest.Dot, mailtest.Action{Delay: 3 * time.Millisecond}),
	})
	dir := t.TempDir()
	v := victim{
		Database: "sqlite:" + filepath.Join(dir, "test.db"), Key: seal.NewKey(), Dir: filepath.Join(dir, "delivery"),
		SMTP: sink.URL("", fmt.Sprintf("connections=%d", connections)), Users: users,
	}
	d, store, err := v.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	told := newTold(t)
	if err := store.CreateWebhook(ctx, notify.Webhook{ID: "w", ClientID: "shop", URL: told.url, Secret: "hush",
		Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	var sends []int64
	for _, n := range make(users) {
		send, _, err := store.Accept(ctx, n)
		testkit.Must(t, err)
		sends = append(sends, send.Number)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	step := max(1, users/(kills+1))
	for range kills {
		cmd := v.spawn(t)
		// Between at once and when twice a step more was accepted.
		sink.Wait(min(sink.Accepted()+rand.IntN(2*step), users), time.Minute)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait() //nolint:errcheck // it was killed
	}
	before := len(sink.Received())
	last := v.spawn(t)
	for len(sink.Received()) < users {
		changed := sink.Changed()
		if len(sink.Received()) >= users {
			break
		}
		select {
		case <-changed:
		case <-time.After(2 * time.Minute):
			last.Process.Kill() //nolint:errcheck // the test has failed
			last.Wait()         //nolint:errcheck // the test has failed
			t.Fatalf("only %d of %d users got the mail", len(sink.Received()), users)
		}
	}
	if err := last.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	last.Wait() //nolint:errcheck // it was killed

	doubles := sink.Accepted() - len(sink.Received())
	t.Logf("%d users, %d kills, %d of them got it before the last start, %d duplicates (at most %d)", users, kills, before,
		doubles, kills*connections)
	if doubles > kills*connections {
		t.Errorf("%d duplicates by %d kills with %d connections", doubles, kills, connections)
	}
	to := map[string]bool{}
	for _, m := range sink.Messages() {
		to[m.To] = true
	}
	if len(to) != users {
		t.Errorf("%d addresses got mail, want %d", len(to), users)
	}

	// What was recorded by then is true: the rest is in the journal.
	d, store, err = v.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	final := New(Options{
		Store: store, Directory: newPeople(users), Channel: &post{}, IDs: testIDs(t), Dir: v.Dir,
		Webhooks: outbound.Options{Private: true}, Poll: 50 * time.Millisecond,
	})
	if err := final.Start(ctx); err != nil {
		t.Fatal(err)
	}
	told.await(users)
	final.Stop()
	var counts notify.Counts
	for _, number := range sends {
		s, err := store.Send(ctx, number)
		testkit.Must(t, err)
		counts.Total += s.Counts.Total
		counts.Delivered += s.Counts.Delivered
	}
	if counts.Total != users || counts.Delivered != users {
		t.Errorf("counts are %+v, want all %d delivered", counts, users)
	}
	checkFigures(t, store, sends...)
}

// told is a webhook that remembers of which recipients it was told.
type told struct {
	t       *testing.T
	url     string
	mu      sync.Mutex
	seen    map[string]bool
	changed chan struct{}
}

func newTold(t *testing.T) *told {
	t.Helper()
	w := &told{t: t, seen: map[string]bool{}, changed: make(chan struct{}, 1)}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var call Call
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			return // the caller was killed in the middle
		}
		w.mu.Lock()
		for _, e := range call.Events {
			w.seen[e.Recipient] = w.seen[e.Recipient] || e.Status == notify.Delivered
		}
		w.mu.Unlock()
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	return w
}

// await waits until it was told of so many.
func (w *told) await(n int) {
	w.t.Helper()
	for {
		w.mu.Lock()
		have := len(w.seen)
		w.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-w.changed:
		case <-time.After(2 * time.Minute):
			w.t.Errorf("the webhook was told of %d messages, want %d", have, n)
			return
		}
	}
}

// TestMailServerFaults breaks the mail server in every way: nothing is lost.
func TestMailServerFaults(t *testing.T) {
	t.Parallel()
	const users = 120
	for name, c := range map[string]struct {
		fault func() mailtest.Fault
		// doubles tells that messages may come twice, since the server took them
		// and did not say so.
		doubles bool
	}{
		"refuses connections": {fault: func() mailtest.Fault {
			return mailtest.Times(12, mailtest.At(mailtest.Connect, mailtest.Action{Reply: "421 4.3.2 not now"}))
		}},
		"drops connections": {fault: func() mailtest.Fault {
			return mailtest.Times(12, mailtest.At(mailtest.Connect, mailtest.Action{Drop: true, Reset: true}))
		}},
		"hangs": {fault: func() mailtest.Fault {
			return mailtest.Times(6, mailtest.At(mailtest.Rcpt, mailtest.Action{Hang: true}))
		}},
		"hangs after the content": {doubles: true, fault: func() mailtest.Fault {
			return mailtest.Times(4, mailtest.At(mailtest.Dot, mailtest.Action{Hang: true}))
		}},
		"drops in the content": {fault: func() mailtest.Fault {
			return mailtest.Times(20, mailtest.At(mailtest.Content, mailtest.Action{Drop: true}))
		}},
		"greylists": {fault: mailtest.Greylist},
		"is full": {fault: func() mailtest.Fault {
			return mailtest.Times(50, mailtest.At(mailtest.Mail, mailtest.Action{Reply: "452 4.3.1 no space"}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := mailtest.New(t, mailtest.Options{Fault: c.fault()})
			commands, content := time.Minute, time.Minute
			switch name {
			case "hangs":
				commands = 2 * time.Second
			case "hangs after the content":
				content = 2 * time.Second
			}
			w := newWorld(t, setup{people: newPeople(users), channel: newMail(t, sink.URL("", "connections=4"), commands,
				content), change: func(o *Options) {
				o.Log = nil
				o.Schedule = Schedule{First: 5 * time.Millisecond, Longest: 100 * time.Millisecond, Attempts: 10_000}
			}})
			w.start()
			got := w.finish(w.send(to(notify.ToEveryone, "")))
			received := sink.Received()
			if got.Delivered != users || len(received) != users {
				t.Errorf("%+v, %d received", got, len(received))
			}
			for id, n := range received {
				if n > 1 && !c.doubles {
					t.Errorf("%s came %d times", id, n)
				}
			}
			if v := sink.Violations(); len(v) > 0 {
				t.Errorf("violations of the protocol: %v", v)
			}
		})
	}
}

// TestMailServerDisappears takes the server away in the middle.
func TestMailServerDisappears(t *testing.T) {
	t.Parallel()
	const users = 400
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))
	first := mailtest.New(t, mailtest.Options{Addr: at, Fault: mailtest.At(mailtest.Dot,
		mailtest.Action{Delay: time.Millisecond})})
	w := newWorld(t, setup{people: newPeople(users), channel: newMail(t, first.URL("", "connections=4"), time.Minute,
		time.Minute), change: func(o *Options) {
		o.Log = nil
		o.Schedule = Schedule{First: 5 * time.Millisecond, Longest: 100 * time.Millisecond, Attempts: 10_000}
	}})
	w.start()
	send := w.send(to(notify.ToEveryone, ""))
	if !first.Wait(50, time.Minute) {
		t.Fatal("nothing was delivered")
	}
	first.Close()
	w.store.until(t, "messages wait for the server", func() bool { return w.counts(send).Retry > 50 })
	second := mailtest.New(t, mailtest.Options{Addr: at})
	if got := w.finish(send); got.Delivered != users {
		t.Errorf("counts are %+v, want %d delivered", got, users)
	}
	all := first.Received()
	for id, n := range second.Received() {
		all[id] += n
	}
	if len(all) != users {
		t.Errorf("%d of %d received", len(all), users)
	}
	if doubles := first.Accepted() + second.Accepted() - users; doubles > 4 {
		t.Errorf("%d duplicates on 4 connections", doubles)
	}
}

// newMail is the real mail channel, with little patience for answers to commands or content
// where a test needs that: who gives up too early delivers twice.
func newMail(t testing.TB, url string, commands, content time.Duration) *mail.Channel {
	t.Helper()
	return newMailFrom(t, mail.Identity{From: "a@example.com"}, url, commands, content)
}

func newMailFrom(t testing.TB, from mail.Identity, url string, commands, content time.Duration) *mail.Channel {
	t.Helper()
	channel, err := mail.NewChannel(mail.Options{URL: url, Identity: from,
		Tune: func(c *smtp.Config) {
			c.Timeout, c.ContentTimeout, c.Pause = commands, content, 20*time.Millisecond
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(channel.Stop)
	return channel
}
