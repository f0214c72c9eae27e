package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
)

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
	c := newCaller(Options{Store: f, Log: slog.New(slog.DiscardHandler), Webhooks: outbound.Options{Private: true},
		steady: time.Now}.forTests())
	defer c.post.Close()
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
