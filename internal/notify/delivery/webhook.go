package delivery

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
)

// Event is the result of one message in a webhook call.
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

// Call is the body of a webhook call.
type Call struct {
	Events []Event `json:"events"`
}

const (
	// together is the maximum number of events per call.
	together = 100
	// callsFetched is how many calls are read at a time, callsHeld how many are
	// in memory, and callsQueued how many of one webhook.
	callsFetched = 64
	callsHeld    = 512
	callsQueued  = 128
	callLease    = 2 * time.Minute
	// callPoll is for calls that are due by their schedule.
	callPoll = 5 * time.Second
)

// callsKept is how long calls are kept that wait for others to succeed.
const callsKept = 48 * time.Hour

// callSchedule retries for about a day.
var callSchedule = Schedule{First: 10 * time.Second, Longest: 4 * time.Hour, Attempts: 15, Jitter: 0.2}

// caller calls webhooks with the results of messages.
type caller struct {
	o    Options
	post *outbound.Client
	wake signal

	// made signals new calls.
	made atomic.Bool

	mu     sync.Mutex
	queues map[string][]notify.Callback // by webhook: calls being processed by a goroutine
	held   int
}

func newCaller(o Options) *caller {
	return &caller{o: o, post: outbound.New(o.Webhooks), wake: newSignal(), queues: map[string][]notify.Callback{}}
}

// callbacks groups the events that a webhook subscribed to into calls. It is a
// notify.CallbackMaker.
func (c *caller) callbacks(hook notify.Webhook, messages []*notify.Claimed) []notify.Callback {
	var all []notify.Callback
	var call Call
	pack := func() {
		if len(call.Events) == 0 {
			return
		}
		payload, err := json.Marshal(call)
		if err != nil {
			c.o.Log.Error("encode webhook call failed", "error", err)
			return
		}
		all = append(all, notify.Callback{ID: strings.ToLower(rand.Text()), WebhookID: hook.ID, Payload: payload})
		call.Events = nil
	}
	for _, m := range messages {
		if !wants(hook, m.Status) {
			continue
		}
		recipient := m.UserID
		if recipient == "" {
			recipient = m.Email
		}
		if m.Channel == notify.Chat {
			recipient = m.Channel.String()
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
	if len(all) > 0 {
		c.made.Store(true)
	}
	return all
}

// wants reports whether a webhook is called for a status. Webhooks that were
// created before messages could be unsubscribed get them as undeliverable ones.
// About canceled messages there is no call, because the answer to the cancellation counts them, and about skipped
// and throttled ones neither: the recipient was reached by another channel, or not meant to be.
func wants(hook notify.Webhook, s notify.Status) bool {
	switch s {
	case notify.Canceled, notify.Skipped, notify.Digested, notify.Throttled:
		return false
	}
	return len(hook.Events) == 0 || slices.Contains(hook.Events, s) || s == notify.Unsubscribed &&
		slices.Contains(hook.Events, notify.Undeliverable)
}
