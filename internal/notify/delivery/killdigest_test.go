package delivery

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/mail/mailtest"
)

// TestSoakKillDigest kills servers with SIGKILL while they collect events in digests and send those: each event is in
// exactly one digest of each user, no digest has more than it may, and only as many mails come twice as there are
// connections for each kill. INGOT_SOAK=1 makes it the long form.
func TestSoakKillDigest(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			users, events, kills := 40, 30, 6
			if os.Getenv("INGOT_SOAK") == "1" {
				users, events, kills = 500, 200, 200
			}
			j := &journeys{kills: kills}
			j.sink = mailtest.New(t, mailtest.Options{Keep: 10 * users * events,
				Fault: mailtest.At(mailtest.Dot, mailtest.Action{Delay: 3 * time.Millisecond})})
			j.v = victim{Database: dbtest.URL(t, dialect), Key: seal.NewKey(), Dir: t.TempDir(), Users: users,
				SMTP: j.sink.URL("", fmt.Sprintf("connections=%d", connections))}
			d, store, err := j.v.open(t.Context())
			testkit.Must(t, err)
			var everyone []notify.Recipient
			for _, id := range newPeople(users).order {
				everyone = append(everyone, notify.Recipient{UserID: id})
			}
			for i := range events {
				_, _, err := store.Accept(t.Context(), notify.NewSend{Send: notify.Send{ClientID: "shop", KindID: "news",
					DigestRule: &notify.DigestRule{Window: notify.Delay(time.Duration(100+20*i) * time.Millisecond), Max: 7},
					Audiences:  []notify.Audience{{Type: notify.ToEveryone}}, Received: time.Now(), Expanded: true,
					Content: notify.Content{Subject: fmt.Sprintf("event-%04d", i)}}, Recipients: everyone})
				testkit.Must(t, err)
			}
			testkit.Must(t, d.Close())
			servers := 1
			if dialect == db.Postgres {
				servers = 2
			}
			j.kill(t, servers)
			j.endDigests(t, servers, events)
		})
	}
}

var eventName = regexp.MustCompile(`event-\d{4}`)

// endDigests lets servers finish, and looks at what came.
func (j *journeys) endDigests(t *testing.T, servers, events int) {
	t.Helper()
	d, store, err := j.v.open(t.Context())
	testkit.Must(t, err)
	defer d.Close()
	key, err := store.IDKey(t.Context())
	testkit.Must(t, err)
	ids, err := notify.NewIDs(key) // those of the servers that were killed
	testkit.Must(t, err)
	var all []*Delivery
	defer func() {
		for _, one := range all {
			one.Stop()
		}
	}()
	for i := range servers {
		last := New(Options{Store: store, Directory: newPeople(j.v.Users), Channel: newMail(t, j.sink.URL("", ""),
			time.Minute, time.Minute), IDs: ids, Dir: filepath.Join(j.v.Dir, fmt.Sprint(i))})
		testkit.Must(t, last.Start(t.Context()))
		all = append(all, last)
	}
	testkit.Eventually(t, "nothing waits", func() bool {
		n, err := store.Waiting(t.Context())
		testkit.Must(t, err)
		return n == 0
	})
	sends, err := store.ListSends(t.Context(), notify.SendQuery{All: true, Limit: 10 * j.v.Users * events})
	testkit.Must(t, err)
	collected := 0
	var numbers []int64
	for _, s := range sends {
		numbers = append(numbers, s.Number)
		switch {
		case s.Digest == nil && s.Counts != (notify.Counts{Total: j.v.Users, Digested: j.v.Users}):
			t.Errorf("an event has %+v", s.Counts)
		case s.Digest != nil && (s.Digest.Count > 7 || s.Counts != (notify.Counts{Total: 1, Delivered: 1})):
			t.Errorf("a digest of %d has %+v", s.Digest.Count, s.Counts)
		case s.Digest != nil:
			collected += s.Digest.Count
		}
	}
	checkFigures(t, store, numbers...)
	if collected != j.v.Users*events {
		t.Errorf("%d events are in digests, want %d", collected, j.v.Users*events)
	}
	seen, mails := map[string]string{}, map[string]bool{}
	for _, m := range j.sink.Messages() {
		mails[m.ID] = true
		for _, event := range eventName.FindAllString(m.Data, -1) {
			key := m.To + " " + event
			if other := seen[key]; other != "" && other != m.ID {
				t.Errorf("%s is in two digests", key)
			}
			seen[key] = m.ID
		}
	}
	if len(seen) != j.v.Users*events {
		t.Errorf("%d events came, want %d", len(seen), j.v.Users*events)
	}
	doubles := j.sink.Accepted() - len(mails)
	t.Logf("%d events to %d users in %d mails, %d kills of %d servers, %d duplicates (at most %d)", events, j.v.Users,
		len(mails), j.kills, servers, doubles, j.kills*connections)
	if doubles > j.kills*connections {
		t.Errorf("%d duplicates", doubles)
	}
}
