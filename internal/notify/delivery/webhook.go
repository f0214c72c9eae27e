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

	// made tells that there are new calls.
	made atomic.Bool

	mu    sync.Mutex
	lines map[string][]notify.Callback // by webhook: those that a goroutine is at work on
	held  int
}

func newCaller(o Options) *caller {
	return &caller{o: o, post: newPoster(o.Webhooks), wake: newSignal(), lines: map[string][]notify.Callback{}}
}

// callbacks packs the events that a webhook wants. It is a notify.Teller.
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
	if len(all) > 0 {
		c.made.Store(true)
	}
	return all
}
