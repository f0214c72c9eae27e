package delivery

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/internal/notify"
)

// Event is what a webhook is told of one message.
type Event struct {
	ID        string        `json:"notification_id"`
	Send      string        `json:"send_id"`
	Status    notify.Status `json:"status"`
	ClientID  string        `json:"client_id"`
	KindID    string        `json:"kind_id,omitempty"`
	Campaign  string        `json:"campaign_type_id,omitempty"`
	Recipient string        `json:"recipient"`
	Reason    string        `json:"reason,omitempty"`
	Attempts  int           `json:"attempts"`
	Parked    bool          `json:"parked,omitempty"`
	RequestID string        `json:"vcap_request_id,omitempty"`
	UpdatedAt time.Time     `json:"updated_at"`
}

// Call is the body of a call.
type Call struct {
	Events []Event `json:"events"`
}

const (
	// together is how many events a call may hold.
	together = 100
	// hooksFor is how long a new webhook may go unnoticed.
	hooksFor = 5 * time.Second
	// callsFetched is how many calls are read at a time, callsHeld how many are
	// in memory, and callsInLine how many of one webhook.
	callsFetched = 64
	callsHeld    = 512
	callsInLine  = 128
	callLease    = 2 * time.Minute
	// callPoll is for calls that are due by their schedule.
	callPoll = 5 * time.Second
)

// callSchedule tries for about a day.
var callSchedule = Schedule{First: 10 * time.Second, Longest: 4 * time.Hour, Attempts: 15, Jitter: 0.2}

// caller tells webhooks what became of messages.
type caller struct {
	o    Options
	post poster
	wake signal

	mu    sync.Mutex
	hooks map[string]hooks
	lines map[string][]notify.Callback // by webhook: those that a goroutine is at work on
	held  int
}

type hooks struct {
	all   []notify.Webhook
	until time.Time
}

func newCaller(o Options) *caller {
	return &caller{o: o, post: newPoster(o.Webhooks), wake: newSignal(), hooks: map[string]hooks{}, lines: map[string][]notify.Callback{}}
}

// tell queues calls about messages that reached their end.
func (c *caller) tell(ctx context.Context, final []notify.Claimed) {
	if len(final) == 0 {
		return
	}
	byClient := map[string][]*notify.Claimed{}
	for i := range final {
		client := final[i].Send.ClientID
		byClient[client] = append(byClient[client], &final[i])
	}
	var all []notify.Callback
	for client, messages := range byClient {
		for _, hook := range c.of(ctx, client) {
			all = append(all, c.callbacks(hook, messages)...)
		}
	}
	if len(all) == 0 {
		return
	}
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		err := c.o.Store.AddCallbacks(ctx, all)
		if err == nil {
			break
		}
		if pause > 5*time.Second || !wait(ctx, pause) {
			c.o.Log.Error("webhooks cannot be told of messages", "calls", len(all), "error", err)
			return
		}
	}
	c.wake.poke()
}

// of returns the webhooks of a client.
func (c *caller) of(ctx context.Context, client string) []notify.Webhook {
	now := c.o.Now()
	c.mu.Lock()
	have, ok := c.hooks[client]
	c.mu.Unlock()
	if ok && now.Before(have.until) {
		return have.all
	}
	all, err := c.o.Store.Webhooks(ctx, client)
	if err != nil {
		if ctx.Err() == nil {
			c.o.Log.Error("webhooks cannot be read", "client", client, "error", err)
		}
		return have.all
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.hooks) >= 10_000 {
		clear(c.hooks)
	}
	c.hooks[client] = hooks{all, now.Add(hooksFor)}
	return all
}

// callbacks packs the events that a webhook wants.
func (c *caller) callbacks(hook notify.Webhook, messages []*notify.Claimed) []notify.Callback {
	var all []notify.Callback
	var call Call
	pack := func() {
		if len(call.Events) == 0 {
			return
		}
		payload, err := json.Marshal(call)
		if err != nil {
			c.o.Log.Error("a call of a webhook cannot be written", "error", err)
			return
		}
		all = append(all, notify.Callback{ID: strings.ToLower(rand.Text()), WebhookID: hook.ID, Payload: payload})
		call.Events = nil
	}
	for _, m := range messages {
		if len(hook.Events) > 0 && !slices.Contains(hook.Events, m.Status) {
			continue
		}
		recipient := m.UserID
		if recipient == "" {
			recipient = m.Email
		}
		call.Events = append(call.Events, Event{
			ID: c.o.IDs.Message(m.Number), Send: c.o.IDs.Send(m.Send.Number), Status: m.Status,
			ClientID: m.Send.ClientID, KindID: m.Send.KindID, Campaign: m.Send.CampaignTypeID,
			Recipient: recipient, Reason: m.Reason, Attempts: m.Attempts, Parked: m.Parked,
			RequestID: m.Send.RequestID, UpdatedAt: m.Updated.UTC(),
		})
		if len(call.Events) == together {
			pack()
		}
	}
	pack()
	return all
}
