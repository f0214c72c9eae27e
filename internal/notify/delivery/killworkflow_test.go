package delivery

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/inbox"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/notifydb"
)

// journeys are two sends to the same users: mail to those who do not read the inbox, and the inbox for those whose
// mail is refused. Half of the users read, and just their addresses do not exist.
type journeys struct {
	v                victim
	kills            int
	sink             *mailtest.Sink
	reminds, instead int64 // the sends
}

func (j *journeys) reads(user string) bool { return (user[len(user)-1]-'0')%2 == 0 }

func (j *journeys) accept(t *testing.T, store *notifydb.Store, workflow string) int64 {
	t.Helper()
	w, err := notify.ParseWorkflow(json.RawMessage(workflow))
	testkit.Must(t, err)
	send, _, err := store.Accept(t.Context(), notify.NewSend{Send: notify.Send{ClientID: "shop", KindID: "news",
		Workflow: w, Channels: w.Channels(), Audiences: []notify.Audience{{Type: notify.ToEveryone}}, Received: time.Now(),
		Content: notify.Content{Subject: "Hello", Text: "text"}}})
	testkit.Must(t, err)
	return send.Number
}

// begin accepts the sends, and lets half of the users read the first in the inbox.
func (j *journeys) begin(t *testing.T, store *notifydb.Store) {
	t.Helper()
	j.reminds = j.accept(t, store,
		`{"steps":[{"channel":"inbox"},{"channel":"email","after":"1s","if":{"unread":"inbox"}}]}`)
	j.instead = j.accept(t, store, `{"steps":[{"channel":"email"},{"channel":"inbox","if":{"failed":"email"}}]}`)
	ctx := t.Context()
	all := make([]notify.Recipient, 0, j.v.Users)
	for _, id := range newPeople(j.v.Users).order {
		all = append(all, notify.Recipient{UserID: id})
	}
	both := notify.ChannelsOf(notify.Email, notify.Inbox)
	testkit.Must(t, store.Extend(ctx, j.reminds, notify.Cursor{}, both.Messages(all), notify.Cursor{Audience: 1}, true))
	claimed, err := store.Claim(ctx, "reader", 10*j.v.Users, time.Hour, notify.Inbox)
	testkit.Must(t, err)
	var outcomes []notify.Outcome
	for _, c := range claimed {
		if !j.reads(c.UserID) {
			continue
		}
		of := notify.Owner{ClientID: "shop", UserID: c.UserID}
		testkit.Must(t, store.AddNotifications(ctx, "shop", []notify.Notification{{Number: c.Number, Owner: of,
			KindID: "news", Title: "Hello", Created: time.Now()}}))
		_, err := store.ReadAll(ctx, of)
		testkit.Must(t, err)
		outcomes = append(outcomes, notify.Outcome{Number: c.Number, Status: notify.Delivered, Attempted: true,
			At: time.Now()})
	}
	_, err = store.Finish(ctx, outcomes, nil)
	testkit.Must(t, err)
	testkit.Must(t, store.Release(ctx, "reader"))
}

// kill starts servers and kills them after some time, again and again.
func (j *journeys) kill(t *testing.T, servers int) {
	t.Helper()
	for range j.kills / servers {
		running := make([]*exec.Cmd, servers)
		for i := range running {
			v := j.v
			v.Dir = filepath.Join(j.v.Dir, fmt.Sprint(i))
			running[i] = v.spawn(t)
		}
		moment := time.Duration(100+rand.IntN(400)) * time.Millisecond
		<-time.After(moment) // any moment will do
		for _, cmd := range running {
			testkit.Must(t, cmd.Process.Kill())
			cmd.Wait() //nolint:errcheck // it was killed
		}
	}
}

// TestSoakKillWorkflow kills servers with SIGKILL in the middle of fallbacks: who has read gets no mail, everyone else
// does, whose mail is refused has one notification instead, and only as many mails come twice as there are connections
// for each kill. INGOT_SOAK=1 makes it the long form.
func TestSoakKillWorkflow(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			users, kills := 200, 6
			if os.Getenv("INGOT_SOAK") == "1" {
				users, kills = 3000, 200
			}
			j := &journeys{kills: kills}
			j.sink = mailtest.New(t, mailtest.Options{Keep: 10 * users, Fault: func(s mailtest.Step) mailtest.Action {
				name, _, _ := strings.Cut(s.To, "@")
				switch {
				case s.Stage == mailtest.Rcpt && j.reads(name):
					return mailtest.Action{Reply: "550 5.1.1 no such user"}
				case s.Stage == mailtest.Dot:
					return mailtest.Action{Delay: 3 * time.Millisecond}
				}
				return mailtest.Action{}
			}})
			j.v = victim{Database: dbtest.URL(t, dialect), Key: seal.NewKey(), Dir: t.TempDir(), Users: users,
				SMTP: j.sink.URL("", fmt.Sprintf("connections=%d", connections))}
			d, store, err := j.v.open(t.Context())
			testkit.Must(t, err)
			j.begin(t, store)
			testkit.Must(t, d.Close())
			servers := 1
			if dialect == db.Postgres {
				servers = 2
			}
			j.kill(t, servers)
			j.end(t, servers)
		})
	}
}

// end lets servers finish the sends, and looks at what became of them.
func (j *journeys) end(t *testing.T, servers int) {
	t.Helper()
	d, store, err := j.v.open(t.Context())
	testkit.Must(t, err)
	defer d.Close()
	var all []*Delivery
	defer func() {
		for _, one := range all {
			one.Stop()
		}
	}()
	for i := range servers { // each has its own journal
		last := New(Options{Store: store, Directory: newPeople(j.v.Users), Channel: newMail(t, j.sink.URL("", ""),
			time.Minute, time.Minute), IDs: testIDs(t), Dir: filepath.Join(j.v.Dir, fmt.Sprint(i)),
			More: map[notify.ChannelID]notify.Channel{notify.Inbox: inbox.NewChannel(store, inbox.NewHub(inbox.Options{
				Store: store}))}})
		testkit.Must(t, last.Start(t.Context()))
		all = append(all, last)
	}
	half := j.v.Users / 2
	for _, send := range []int64{j.reminds, j.instead} {
		testkit.Eventually(t, "the sends are finished", func() bool {
			s, err := store.Send(t.Context(), send)
			testkit.Must(t, err)
			return !s.Finished.IsZero()
		})
		s, err := store.Send(t.Context(), send)
		testkit.Must(t, err)
		want := notify.Counts{Total: 4 * half, Delivered: 3 * half, Skipped: half}
		if send == j.instead {
			want = notify.Counts{Total: 4 * half, Delivered: 2 * half, Skipped: half, Failed: s.Counts.Failed,
				Undeliverable: half - s.Counts.Failed}
		}
		if s.Counts != want {
			t.Errorf("counts are %+v, want %+v", s.Counts, want)
		}
	}
	checkFigures(t, store, j.reminds, j.instead)
	for _, user := range newPeople(j.v.Users).order {
		state, list, err := store.Inbox(t.Context(), notify.Owner{ClientID: "shop", UserID: user}, 0, 10)
		testkit.Must(t, err)
		want := []int{1, 1} // a user who reads nothing has only the first one, unread
		if j.reads(user) {
			want = []int{2, 1}
		}
		if len(list) != want[0] || state.Unread != want[1] {
			t.Errorf("%s has %d notifications, %d unread, want %v", user, len(list), state.Unread, want)
		}
	}
	mails := map[string]int{}
	for _, m := range j.sink.Messages() {
		mails[m.To]++
	}
	doubles := j.sink.Accepted() - 2*half
	for to, n := range mails {
		if name, _, _ := strings.Cut(to, "@"); n < 2 || j.reads(name) {
			t.Errorf("%s got %d mails", to, n)
		}
	}
	if len(mails) != half || doubles > j.kills*connections {
		t.Errorf("%d addresses got mail, want %d; %d duplicates", len(mails), half, doubles)
	}
	t.Logf("%d users, %d kills of %d servers, %d duplicates (at most %d)", j.v.Users, j.kills, servers, doubles,
		j.kills*connections)
}
