package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/safedial"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
)

func TestPoster(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	body := []byte(`{"events":[]}`)
	asked := make(chan *http.Request, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	for path, says := range map[string]string{
		"/ok": "", "/endless": "", "/redirect": "302", "/broken": "500",
	} {
		p := newPoster(WebhookOptions{Private: true})
		err := p.do(context.Background(), notify.Callback{URL: server.URL + path, Secret: "s3cret", Payload: body}, now)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want %q", path, err, says)
		}
		r := <-asked
		// Of printf '1900000000.{"events":[]}' | openssl dgst -sha256 -hmac s3cret
		if want := "t=1900000000,v1=" + signed; r.Header.Get("X-Ingot-Signature") != want || r.Method != http.MethodPost ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s with %v", path, r.Method, r.Header)
		}
		p.close()
	}
	if len(asked) > 0 {
		t.Error("a redirect was followed")
	}
	p := newPoster(WebhookOptions{})
	if err := p.do(context.Background(), notify.Callback{URL: server.URL, Payload: body},
		now); !errors.Is(err, safedial.ErrPrivate) {
		t.Errorf("a private address was called: %v", err)
	}
	if err := p.do(context.Background(), notify.Callback{URL: "file:///etc/passwd"}, now); err == nil {
		t.Error("a file was called")
	}
	if len(asked) > 0 {
		t.Error("the server was reached")
	}
}

const signed = "d36af2a1f5962dd92f844c184bea16b475b56734e85d3f303bf72d814fa6b0c7"

func TestCallbacksArePacked(t *testing.T) {
	t.Parallel()
	c := newCaller(Options{IDs: testIDs(t)}.forTests())
	send := &notify.Send{Number: 3, ClientID: "shop", KindID: "news", RequestID: "r"}
	var all []*notify.Claimed
	for i := range 250 {
		m := notify.Claimed{Send: send, Message: notify.Message{Number: notify.MessageNumber(3, i), Status: notify.Delivered,
			Attempts: 1}}
		m.UserID = fmt.Sprint("u", i)
		if i%50 == 0 {
			m.Status, m.Reason = notify.Failed, "554 no"
		}
		all = append(all, &m)
	}
	for name, c2 := range map[string]struct {
		events []notify.Status
		calls  []int
	}{
		"all":    {nil, []int{100, 100, 50}},
		"failed": {[]notify.Status{notify.Failed}, []int{5}},
		"none":   {[]notify.Status{notify.Undeliverable}, nil},
	} {
		got := c.callbacks(notify.Webhook{ID: "w", Events: c2.events}, all)
		if len(got) != len(c2.calls) {
			t.Fatalf("%s: %d calls", name, len(got))
		}
		for i, cb := range got {
			var call Call
			if err := json.Unmarshal(cb.Payload, &call); err != nil {
				t.Fatal(err)
			}
			if len(call.Events) != c2.calls[i] || cb.WebhookID != "w" || cb.ID == "" {
				t.Errorf("%s: call %d has %d events", name, i, len(call.Events))
			}
			if e := call.Events[0]; e.ClientID != "shop" || e.Recipient == "" || e.ID == "" || e.Send == "" ||
				!e.Status.Final() {
				t.Errorf("%s: event is %+v, want a final one of shop with all ids", name, e)
			}
		}
	}
}

// finished is a store that remembers what became of calls.
type finished struct {
	notify.Store
	mu   sync.Mutex
	all  map[string]int // attempts by id; -1: deleted
	last chan string
}

func (f *finished) FinishCallback(_ context.Context, id string, attempts int, again time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if again.IsZero() {
		attempts = -1
	}
	f.all[id] = attempts
	f.last <- id
	return nil
}

// A call that was not made, because another one failed or there are too many, is no attempt.
// It is dropped when it is too old.
func TestCallsThatAreNotMade(t *testing.T) {
	t.Parallel()
	f := &finished{all: map[string]int{}, last: make(chan string, 2*callsQueued)}
	c := newCaller(Options{Store: f, Log: slog.New(slog.DiscardHandler), Webhooks: WebhookOptions{Private: true},
		steady: time.Now}.forTests())
	defer c.post.close()
	now := time.Now()
	call := func(id string, attempts int, at time.Time) notify.Callback {
		payload, err := json.Marshal(Call{Events: []Event{{ID: id, UpdatedAt: at}}})
		if err != nil {
			t.Fatal(err)
		}
		return notify.Callback{ID: id, WebhookID: "w", URL: testkit.Refusing(t), Payload: payload, Attempts: attempts}
	}
	// The first one fails, the others wait for it.
	c.queues["w"] = []notify.Callback{call("called", 2, now), call("waits", 2, now), call("new", 0, now),
		call("old", 3, now.Add(-2*callsKept))}
	c.held = len(c.queues["w"])
	c.work(t.Context(), "w")
	// A queue that is full.
	c.queues["w"] = make([]notify.Callback, callsQueued)
	var working background.WaitGroup
	c.enqueue(t.Context(), call("too many", 5, now), &working)
	for id, want := range map[string]int{"called": 3, "waits": 2, "new": 0, "old": -1, "too many": 5} {
		if got, known := f.all[id]; !known || got != want {
			t.Errorf("%s: %d attempts (known: %t), want %d", id, got, known, want)
		}
	}
}
