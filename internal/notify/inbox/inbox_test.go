package inbox_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
	"ingot/internal/notify/channeltest"
	"ingot/internal/notify/inbox"
	"ingot/internal/notify/notifydb"
)

func open(t testing.TB, d *db.DB) *notifydb.Store {
	t.Helper()
	store, err := notifydb.Open(t.Context(), d, notifydb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func encode(n notify.Notification, unread int) []byte {
	return fmt.Appendf(nil, `{"title":%q,"unread_count":%d}`, n.Title, unread)
}

// hub returns a started hub on a store.
func hub(t testing.TB, store *notifydb.Store, o inbox.Options) *inbox.Hub {
	t.Helper()
	o.Store, o.Notices, o.Encode = store, store, encode
	h := inbox.NewHub(o)
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Stop)
	return h
}

// recorder remembers the ids of messages by their numbers, under which they are stored.
type recorder struct {
	notify.Channel
	mu  sync.Mutex
	ids map[int64]string
	of  map[notify.Owner]bool
}

func (r *recorder) record(batch []notify.Outgoing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range batch {
		r.ids[o.Number] = o.ID
		r.of[notify.Owner{ClientID: o.ClientID, UserID: o.UserID}] = true
	}
}

func TestChannel(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		store := open(t, d)
		channeltest.Run(t, func(t *testing.T, _ channeltest.Terms) channeltest.Setup {
			r := &recorder{Channel: inbox.NewChannel(store, hub(t, store, inbox.Options{})), ids: map[int64]string{},
				of: map[notify.Owner]bool{}}
			return channeltest.Setup{Channel: recording{r}, Once: true, Users: true, Received: func() map[string]int {
				r.mu.Lock()
				defer r.mu.Unlock()
				got := map[string]int{}
				for of := range r.of {
					list, err := store.Notifications(t.Context(), notify.InboxQuery{Owner: of, Limit: 2000})
					if err != nil {
						t.Error(err)
					}
					for _, n := range list {
						if id := r.ids[n.Number]; id != "" {
							got[id]++
						}
					}
				}
				return got
			}}
		})
	})
}

type recording struct{ *recorder }

func (r recording) Deliver(ctx context.Context, batch []notify.Outgoing, done func(int, notify.Result)) {
	r.record(batch)
	r.Channel.Deliver(ctx, batch, done)
}

// TestContent sees what an inbox shows of a message: text, whatever the message contains.
func TestContent(t *testing.T) {
	t.Parallel()
	store := open(t, dbtest.New(t, db.SQLite))
	c := inbox.NewChannel(store, hub(t, store, inbox.Options{}))
	for i, tc := range []struct {
		body        notify.Body
		title, text string
	}{
		{notify.Body{Subject: "Hello", Text: "Text\r\nmore", HTML: "<p>HTML</p>"}, "Hello", "Text\nmore"},
		{notify.Body{Subject: "a\r\nb\x00c", Text: " \x00\x1b[31mred\x7f "}, "a  b c", "[31mred"},
		{notify.Body{Subject: "\xff\xfe", Text: "\xffx"}, "�", "�x"},
		{notify.Body{Subject: "<b>&", Text: "<script>alert(1)</script>"}, "<b>&", "<script>alert(1)</script>"},
		{notify.Body{HTML: "<p>One</p><p>Two <b>three</b></p>"}, "", "One\n\nTwo three"},
		{notify.Body{HTML: "<script>alert(1)</script>x<img src=x onerror=alert(1)>"}, "", "x"},
		{notify.Body{HTML: `<a href="javascript:alert(1)">click</a>`}, "", "click"},
		{notify.Body{HTML: `<a href="https://example.com/x">click</a>`}, "", "click <https://example.com/x>"},
		{notify.Body{HTML: `<style>p{}</style><iframe src="https://evil.example">f</iframe>ok`}, "", "ok"},
		{notify.Body{Text: "stop: " + notify.UnsubscribeMark}, "", "stop: https://example.com/u"},
		{notify.Body{Text: strings.Repeat("ü", 10_000)}, "", strings.Repeat("ü", 8190) + "…"},
	} {
		of := notify.Owner{ClientID: "shop", UserID: fmt.Sprint("u", i)}
		c.Deliver(t.Context(), []notify.Outgoing{{Number: int64(i + 1), ClientID: of.ClientID, UserID: of.UserID,
			Body: &tc.body, Unsubscribe: "https://example.com/u"}}, func(_ int, r notify.Result) {
			if r.Verdict != notify.Accepted {
				t.Errorf("%q: %+v", tc.body, r)
			}
		})
		list, err := store.Notifications(t.Context(), notify.InboxQuery{Owner: of, Limit: 2})
		if err != nil || len(list) != 1 {
			t.Fatalf("%q: %d notifications, %v", tc.body, len(list), err)
		}
		if list[0].Title != tc.title || list[0].Text != tc.text {
			t.Errorf("%q is shown as %q %.100q, want %q %.100q", tc.body, list[0].Title, list[0].Text, tc.title, tc.text)
		}
	}
}

// served is a hub behind a server, on which the path names the user and the query the client.
func served(t testing.TB, h *inbox.Hub, expires func() time.Time) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		of := notify.Owner{ClientID: r.URL.RawQuery, UserID: r.URL.Path}
		if err := h.Serve(w, r, of, expires(), -1, r.Context().Done()); err != nil {
			status := http.StatusServiceUnavailable
			if fault.Is(err, fault.RateLimited) {
				status = http.StatusTooManyRequests
			}
			http.Error(w, err.Error(), status)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func inAnHour() time.Time { return time.Now().Add(time.Hour) }

// dial opens a stream and returns its connection after the first event, or the status.
func dial(t testing.TB, s *httptest.Server, client, user string) (net.Conn, *bufio.Reader, string) {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET /%s?%s HTTP/1.1\r\nHost: x\r\n\r\n", user, client)
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	status := strings.TrimSpace(strings.TrimPrefix(line, "HTTP/1.1 "))
	for status == "200 OK" {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "data: ") {
			break
		}
	}
	return conn, r, status
}

// TestStreamsAreBounded opens as many streams as a user, a client and the server may have.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	store := open(t, dbtest.New(t, db.SQLite))
	h := hub(t, store, inbox.Options{Limits: inbox.Limits{User: 2, Client: 3, Server: 5}})
	s := served(t, h, inAnHour)
	var first net.Conn
	for i, tc := range []struct{ client, user, status string }{
		{"a", "u1", "200 OK"}, {"a", "u1", "200 OK"}, {"a", "u1", "429 Too Many Requests"},
		{"a", "u2", "200 OK"}, {"a", "u3", "429 Too Many Requests"},
		{"b", "u1", "200 OK"}, {"b", "u1", "200 OK"}, {"b", "u2", "503 Service Unavailable"},
	} {
		conn, _, status := dial(t, s, tc.client, tc.user)
		if status != tc.status {
			t.Errorf("stream %d of %s %s: %s, want %s", i, tc.client, tc.user, status, tc.status)
		}
		if i == 0 {
			first = conn
		}
	}
	// One whose client went away does not count.
	first.Close()
	for _, _, status := dial(t, s, "a", "u1"); status != "200 OK"; _, _, status = dial(t, s, "a", "u1") {
		if t.Context().Err() != nil {
			t.Fatalf("a stream that was closed still counts: %s", status)
		}
	}
}

// TestStreamsEnd sees heartbeats, the end by an expired token, and the end with the hub.
func TestStreamsEnd(t *testing.T) {
	t.Parallel()
	store := open(t, dbtest.New(t, db.SQLite))
	h := hub(t, store, inbox.Options{Beat: 20 * time.Millisecond})
	_, r, _ := dial(t, served(t, h, inAnHour), "a", "u")
	for beats := 0; beats < 3; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ":\n" {
			beats++
		}
	}
	_, short, _ := dial(t, served(t, h, func() time.Time { return time.Now().Add(100 * time.Millisecond) }), "a", "u")
	drain := func(r *bufio.Reader) {
		for {
			if _, err := r.ReadString('\n'); err != nil {
				return
			}
		}
	}
	drain(short)
	h.Stop()
	drain(r)
	if _, _, status := dial(t, served(t, h, inAnHour), "a", "u"); status != "503 Service Unavailable" {
		t.Errorf("a stream of a stopped hub: %s", status)
	}
}

// TestServers lets a server tell another one of a change.
func TestServers(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.Postgres)
	here, there := open(t, d), open(t, d)
	_, r, _ := dial(t, served(t, hub(t, here, inbox.Options{}), inAnHour), "a", "u")
	of := notify.Owner{ClientID: "a", UserID: "/u"}
	if err := there.AddNotifications(t.Context(), "a", []notify.Notification{{Number: 1, Owner: of,
		Title: "told"}}); err != nil {
		t.Fatal(err)
	}
	hub(t, there, inbox.Options{}).Changed(of)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "told") {
			return
		}
	}
}

// TestScript runs the tests of the script that apps embed.
func TestScript(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	cmd := exec.CommandContext(t.Context(), node, "--test")
	cmd.Dir = "../../../clients/inbox"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
