package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/inbox"
)

// traveling returns a world in which the kinds have a workflow, with a real inbox and a chat.
func traveling(t *testing.T, d *db.DB, workflow string, mail notify.Channel) (*world, *post) {
	t.Helper()
	chat := &post{}
	w := newWorld(t, setup{db: d, channel: mail, change: func(o *Options) {
		o.More = map[notify.ChannelID]notify.Channel{notify.Chat: chat,
			notify.Inbox: inbox.NewChannel(o.Store, inbox.NewHub(inbox.Options{Store: o.Store}))}
	}})
	parsed, err := notify.ParseWorkflow(json.RawMessage(workflow))
	testkit.Must(t, err)
	for _, kind := range []string{"news", "alarm"} {
		testkit.Must(t, w.store.SetWorkflow(t.Context(), notify.KindRef{ClientID: "shop", KindID: kind}, parsed))
	}
	return w, chat
}

// states returns what became of a user's messages of a send, by channel.
func (w *world) states(send int64) string {
	w.t.Helper()
	list, err := w.store.MessagesOf(context.Background(), send, -1, 100)
	testkit.Must(w.t, err)
	all := make([]string, len(list))
	for i, m := range list {
		all[i] = m.Channel.String() + " " + string(m.Status)
	}
	return strings.Join(all, ", ")
}

// undecidedStore does not say what became of messages until it is told to.
type undecidedStore struct {
	notify.Store
	decide chan struct{}
}

func (s undecidedStore) Progress(ctx context.Context, of []notify.Message) (
	map[int64]map[notify.ChannelID]notify.Progress, error) {
	if len(of) > 0 {
		<-s.decide
	}
	return s.Store.Progress(ctx, of)
}

// TestWorkflow follows notifications whose steps have conditions of each kind.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	const user = "user-0000000"
	refused := &post{say: func(notify.Outgoing) notify.Result {
		return notify.Result{Verdict: notify.Permanent, Reason: "550 no"}
	}}
	for _, tc := range []struct {
		name, workflow, want string
		mail                 *post
		kind, data, email    string
		read                 bool
	}{
		{name: "not read", workflow: `{"steps":[{"channel":"inbox"},{"channel":"email","after":"300ms","if":{"unread":"inbox"}}]}`,
			want: "email delivered, inbox delivered"},
		{name: "read", workflow: `{"steps":[{"channel":"inbox"},{"channel":"email","after":"1ms","if":{"unread":"inbox"}}]}`,
			read: true, want: "email skipped, inbox delivered"},
		{name: "no inbox", email: "a@example.com", want: "email delivered",
			workflow: `{"steps":[{"channel":"inbox"},{"channel":"email","after":"10ms","if":{"unread":"inbox"}}]}`},
		{name: "mail failed", mail: refused, want: "email failed, inbox delivered",
			workflow: `{"steps":[{"channel":"email"},{"channel":"inbox","if":{"failed":"email"}}]}`},
		{name: "mail delivered", want: "email delivered, inbox skipped",
			workflow: `{"steps":[{"channel":"email"},{"channel":"inbox","if":{"failed":"email"}}]}`},
		{name: "after mail", want: "email delivered, inbox delivered",
			workflow: `{"steps":[{"channel":"email"},{"channel":"inbox","if":{"delivered":"email"}}]}`},
		{name: "critical", kind: "alarm", want: "inbox delivered, chat delivered",
			workflow: `{"steps":[{"channel":"inbox"},{"channel":"chat","if":{"critical":true}}]}`},
		{name: "not critical", want: "inbox delivered, chat skipped",
			workflow: `{"steps":[{"channel":"inbox"},{"channel":"chat","if":{"critical":true}}]}`},
		{name: "data", data: `{"order":{"total":120}}`, want: "email delivered, inbox delivered",
			workflow: `{"steps":[{"channel":"inbox"},{"channel":"email","if":{"data":"order.total","at_least":100}}]}`},
		{name: "other data", data: `{"order":{"total":"120"}}`, want: "email skipped, inbox delivered",
			workflow: `{"steps":[{"channel":"inbox"},{"channel":"email","if":{"data":"order.total","at_least":100}}]}`},
		{name: "no data", want: "email skipped, inbox delivered",
			workflow: `{"steps":[{"channel":"inbox"},{"channel":"email","if":{"data":"order.total","at_least":100}}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, d *db.DB) {
				mail := tc.mail
				if mail == nil {
					mail = &post{}
				}
				w, chat := traveling(t, d, tc.workflow, mail)
				decide := make(chan struct{})
				w.options.Store = undecidedStore{w.store, decide}
				w.renew()
				w.start()
				send := w.send(func(r *actions.Request) {
					r.Data = json.RawMessage(tc.data)
					if tc.kind != "" {
						r.KindID = tc.kind
					}
					if tc.email != "" {
						to(notify.ToEmail, tc.email)(r)
					}
				})
				if tc.read {
					read := notify.Owner{ClientID: "shop", UserID: user}
					testkit.Eventually(t, "it is in the inbox", func() bool {
						n, err := w.store.ReadAll(t.Context(), read)
						testkit.Must(t, err)
						return n > 0
					})
				}
				close(decide)
				counts := w.finish(send)
				if got := w.states(send); got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
				skipped := strings.Count(tc.want, "skipped")
				if counts.Skipped != skipped || counts.Total != strings.Count(tc.want, ",")+1 {
					t.Errorf("counts are %+v, want %d skipped", counts, skipped)
				}
				if n := len(chat.all()); n != strings.Count(tc.want, "chat delivered") {
					t.Errorf("%d messages in the chat", n)
				}
			})
		})
	}
}

// TestWorkflowOfSend sees that a change of a kind's workflow is for later sends, and that each recipient's own data
// decides.
func TestWorkflowOfSend(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		w, _ := traveling(t, d, `{"steps":[{"channel":"inbox"},{"channel":"email","if":{"data":"vip","equals":true}}]}`, nil)
		first := w.send(func(r *actions.Request) {
			r.Audiences = nil
			r.Members = func(yield func(notify.Member, error) bool) {
				for i, data := range []string{`{"vip":true}`, `{"vip":false}`, ``} {
					if !yield(notify.Member{UserID: fmt.Sprintf("user-%07d", i), Data: json.RawMessage(data)}, nil) {
						return
					}
				}
			}
		})
		testkit.Must(t, w.store.SetWorkflow(t.Context(), notify.KindRef{ClientID: "shop", KindID: "news"}, nil))
		second := w.send()
		w.start()
		w.finish(first)
		w.finish(second)
		const want = "email delivered, inbox delivered, email skipped, inbox delivered, email skipped, inbox delivered"
		if got := w.states(first); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := w.states(second); got != "email delivered" {
			t.Errorf("without a workflow: %s", got)
		}
	})
}

// TestWorkflowWaits sees that a step waits while the mail that it is instead of is still tried, and that it expires.
func TestWorkflowWaits(t *testing.T) {
	t.Parallel()
	mail := &post{say: func(notify.Outgoing) notify.Result {
		return notify.Result{Verdict: notify.Temporary, Reason: "451 later", RetryAfter: time.Hour}
	}}
	w, _ := traveling(t, nil, `{"steps":[{"channel":"email"},{"channel":"inbox","if":{"failed":"email"}}]}`, mail)
	w.options.Schedule = Schedule{First: time.Hour, Longest: time.Hour, Attempts: 3}
	w.renew()
	w.start()
	send := w.send(func(r *actions.Request) { r.ExpiresAt = time.Now().Add(3 * time.Second) })
	w.store.until(t, "the inbox waits", func() bool {
		return w.states(send) == "email retry, inbox retry" && w.message(send, 1).Reason == reasonWaits
	})
	if m := w.message(send, 1); m.Attempts != 0 {
		t.Errorf("waiting counts as %d attempts", m.Attempts)
	}
	w.finish(send)
	if got := w.states(send); got != "email undeliverable, inbox undeliverable" {
		t.Errorf("after the end: %s", got)
	}
	timeline, err := w.store.Timeline(t.Context(), notify.MessageNumber(send, 1))
	testkit.Must(t, err)
	var names []string
	for _, e := range timeline.Events() {
		names = append(names, string(e.Name))
	}
	if got := strings.Join(names, " "); got != "accepted attempt_failed undeliverable undeliverable" {
		t.Errorf("the timeline is %s", got)
	}
}
