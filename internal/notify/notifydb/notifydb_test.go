//go:build unix

package notifydb_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			storetest.Conformance(t, func(t *testing.T) storetest.Open {
				t.Helper()
				return opener(t, dbtest.New(t, dialect))
			})
		})
	}
}

// opener opens stores on one database.
func opener(t testing.TB, d *db.DB) storetest.Open {
	return func(o storetest.Options) notify.Store {
		t.Helper()
		s, err := notifydb.Open(t.Context(), d, notifydb.Options{QueueLimit: o.QueueLimit, Bounds: o.Bounds,
			Now: o.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// TestOpenAgain sees that a second start finds nothing to do.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		open := opener(t, d)
		for range 2 {
			if n, err := open(storetest.Options{}).Waiting(t.Context()); err != nil || n != 0 {
				t.Fatalf("%d messages wait, error %v", n, err)
			}
		}
	})
}

// TestSecretsAreSealed sees that no secret is readable in the database, and
// that all are sealed anew when the server's key is exchanged.
func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			address := dbtest.URL(t, dialect)
			oldKey, newKey := seal.NewKey(), seal.NewKey()
			ctx := t.Context()

			d := openWith(t, address, oldKey)
			s := opener(t, d)(storetest.Options{})
			id, err := s.IDKey(ctx)
			if err != nil {
				t.Fatal(err)
			}
			hook := notify.Webhook{ID: "h", ClientID: "c", URL: "https://example.com", Secret: "nobody may read this"}
			if err := s.CreateWebhook(ctx, hook); err != nil {
				t.Fatal(err)
			}
			room := notify.Destination{ClientID: "c", Channel: notify.Hook, URL: "https://example.com/nobody-may-see",
				Secret: "nor may they see this"}
			if err := s.SetDestination(ctx, room); err != nil {
				t.Fatal(err)
			}
			texting := notify.Provider{Owner: "c", Name: "p", Channel: notify.SMS,
				Secrets: map[string]string{"key": "and this neither"}}
			if err := s.SetProvider(ctx, texting); err != nil {
				t.Fatal(err)
			}
			browser := notify.PushSubscription{ID: "b", Endpoint: "https://push.example.com/nobody-reads",
				Owner: notify.Owner{ClientID: "c", UserID: "u"}, Auth: []byte("not these 16 too")}
			if err := s.AddPushSubscription(ctx, browser); err != nil {
				t.Fatal(err)
			}
			var texts string
			if err := d.View(ctx, func(tx *db.Tx) error {
				return tx.QueryRow("SELECT h.secret || ' ' || s.value || ' ' || d.url || ' ' || d.secret || ' ' " +
					"|| p.secrets || ' ' || b.target " +
					"FROM notify_webhooks AS h, notify_secrets AS s, notify_destinations AS d, notify_providers AS p, " +
					"notify_push AS b").Scan(&texts)
			}); err != nil {
				t.Fatal(err)
			}
			for _, secret := range [][]byte{id, []byte(hook.Secret), []byte(room.URL), []byte(room.Secret),
				[]byte(texting.Secrets["key"]), []byte(browser.Endpoint), browser.Auth} {
				if strings.Contains(texts, string(secret)) ||
					strings.Contains(texts, base64.StdEncoding.EncodeToString(secret)[:16]) {
					t.Errorf("a secret is readable: %s", texts)
				}
			}

			n, err := openWith(t, address, newKey+"\n"+oldKey).Reseal(ctx, notifydb.SealedColumns())
			if err != nil || n != 6 {
				t.Fatalf("sealed %d anew, error %v", n, err)
			}
			s = opener(t, openWith(t, address, newKey))(storetest.Options{})
			if got, err := s.IDKey(ctx); err != nil || !bytes.Equal(got, id) {
				t.Errorf("the id key is %x, want %x, error %v", got, id, err)
			}
			if got, err := s.Webhooks(ctx, "c"); err != nil || len(got) != 1 || got[0].Secret != hook.Secret {
				t.Errorf("webhooks are %v, error %v", got, err)
			}
			if got, err := s.Destination(ctx, "c", notify.Hook); err != nil || got.URL != room.URL || got.Secret != room.Secret {
				t.Errorf("the destination is %v, error %v", got, err)
			}
			if got, err := s.Provider(ctx, "c", "p"); err != nil || got.Secrets["key"] != texting.Secrets["key"] {
				t.Errorf("the provider is %v, error %v", got, err)
			}
			if got, err := s.PushSubscriptionsOf(ctx, "u"); err != nil || len(got) != 1 ||
				got[0].Endpoint != browser.Endpoint {
				t.Errorf("the push subscriptions are %v, error %v", got, err)
			}
		})
	}
}

func openWith(t *testing.T, address, keys string) *db.DB {
	t.Helper()
	ring, err := seal.Parse(keys)
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), db.Options{URL: address, Keys: ring})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestGone sees that nothing personal is left of sends that were purged.
func TestGone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		s := opener(t, d)(storetest.Options{})
		for _, audiences := range []int{1, 2} {
			send, _, err := s.Accept(ctx, notify.NewSend{Send: notify.Send{
				ClientID: "c", Audiences: make([]notify.Audience, audiences), Received: time.Now(),
				Content: notify.Content{Text: "private"},
			}})
			if err != nil {
				t.Fatal(err)
			}
			var many []notify.Recipient
			for i := range 1500 {
				many = append(many, notify.Recipient{UserID: fmt.Sprint("u", i)})
			}
			if err := s.Extend(ctx, send.Number, notify.Cursor{}, many, notify.Cursor{Audience: audiences}, true); err != nil {
				t.Fatal(err)
			}
		}
		claimed, err := s.Claim(ctx, "w", 5000, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var outcomes []notify.Outcome
		for _, c := range claimed {
			outcomes = append(outcomes, notify.Outcome{Number: c.Number, Status: notify.Delivered, At: time.Now()})
		}
		if _, err := s.Finish(ctx, outcomes, nil); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Purge(ctx, time.Now().Add(time.Hour)); err != nil || n != 3000 {
			t.Fatalf("purged %d, error %v", n, err)
		}
		for _, table := range []string{"notify_sends", "notify_messages", "notify_counts", "notify_members",
			"notify_leases"} {
			var n int
			if err := d.View(ctx, func(tx *db.Tx) error {
				return tx.QueryRow("SELECT COUNT(*) FROM " + table).
					Scan(&n)
			}); err != nil {
				t.Fatal(err)
			}
			if n != 0 {
				t.Errorf("%s still has %d rows", table, n)
			}
		}
	})
}

// TestClockSetBack sees that a message that was accepted before the clock was set back is due
// after a restart.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	open := opener(t, dbtest.New(t, db.SQLite))
	now := time.Now()
	before := open(storetest.Options{Now: func() time.Time { return now }})
	if _, _, err := before.Accept(t.Context(), notify.NewSend{
		Send: notify.Send{ClientID: "c", KindID: "k", Received: now,
			Audiences: []notify.Audience{{Type: notify.ToEmail, ID: "ann@example.org"}}, Expanded: true},
		Recipients: []notify.Recipient{{Email: "ann@example.org"}},
	}); err != nil {
		t.Fatal(err)
	}
	after := open(storetest.Options{Now: func() time.Time { return now.Add(-time.Hour) }})
	if claimed, err := after.Claim(t.Context(), "me", 10, time.Minute); err != nil || len(claimed) != 1 {
		t.Errorf("claimed %v, %v, want the message", claimed, err)
	}
}

// TestDeletedTopicsCount: what is left of a deleted topic counts in its client's limit until it is purged.
func TestDeletedTopicsCount(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := opener(t, d)(storetest.Options{})
		set := func(client, name string) notify.TopicRef {
			t.Helper()
			ref := notify.TopicRef{ClientID: client, Name: name}
			_, err := s.SetTopic(t.Context(), notify.Topic{TopicRef: ref, Description: "other"})
			testkit.Must(t, err)
			return ref
		}
		news, open := set("c", "news"), set("c", "open")
		const members = 20_500
		testkit.Must(t, d.Update(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
				INSERT INTO notify_topic_members (topic, id, subscriber, active, since)
				SELECT t.id, 'm' || n.i, 'u' || n.i, TRUE, 0 FROM n, notify_topics t WHERE t.name = 'news'`, members)
			if err != nil {
				return err
			}
			_, err = tx.Exec("UPDATE notify_topics SET held = ? WHERE name = 'news'", notify.MaxSubscribers+members-500)
			return err
		}))
		testkit.Must(t, s.DeleteTopic(t.Context(), news))
		set("c", "news")
		if _, err := s.Subscribe(t.Context(), open, []string{"ann"}); !errors.Is(err, notify.ErrTooMany) {
			t.Errorf("after the deletion: %v", err)
		}
		if _, err := s.Subscribe(t.Context(), set("other", "news"), []string{"ann"}); err != nil {
			t.Errorf("another client: %v", err)
		}
		_, err := s.Purge(t.Context(), time.Now())
		testkit.Must(t, err)
		if _, err := s.Subscribe(t.Context(), open, []string{"ann"}); err != nil {
			t.Errorf("after the purge: %v", err)
		}
	})
}

// TestMailDomainsAreKeyed: a table of hashes does not tell which receiving domains there are without the key.
func TestMailDomainsAreKeyed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := opener(t, d)(storetest.Options{})
		_, err := s.TakeMail(t.Context(), 1, map[string]int{"dora.example": 1}, func(int) int { return 5 })
		testkit.Must(t, err)
		names, err := query.Read(t.Context(), d, func(tx *db.Tx) ([]string, error) {
			return db.All(tx, query.ScanText, "SELECT domain FROM notify_mail_days")
		})
		testkit.Must(t, err)
		sum := sha256.Sum256([]byte("dora.example"))
		plain := hex.EncodeToString(sum[:])
		if len(names) != 1 || len(names[0]) != query.ShortHash || strings.HasPrefix(plain, names[0]) {
			t.Errorf("the domain is stored as %q", names)
		}
	})
}

// TestKeptLimit purges what was to be kept longer than a server now allows.
func TestKeptLimit(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		now := time.Now()
		s, err := notifydb.Open(t.Context(), d, notifydb.Options{KeptLimit: 48 * time.Hour,
			Now: func() time.Time { return now }})
		testkit.Must(t, err)
		n := notify.NewSend{Send: notify.Send{ClientID: "c", Kept: 72 * time.Hour, Received: now, Expanded: true},
			Recipients: []notify.Recipient{{UserID: "dora"}}}
		sent, _, err := s.Accept(t.Context(), n)
		testkit.Must(t, err)
		_, err = s.Finish(t.Context(), []notify.Outcome{{Number: notify.MessageNumber(sent.Number, 0), At: now,
			Status: notify.Delivered}}, nil)
		testkit.Must(t, err)
		for _, later := range []time.Duration{48 * time.Hour, 1} {
			now = now.Add(later)
			n, err := s.Purge(t.Context(), now.Add(-time.Hour))
			if want := int(later % time.Hour); err != nil || n != want {
				t.Errorf("%d purged, %v, want %d", n, err, want)
			}
		}
	})
}

// TestErasuresTogether passes the limit of erasures by no concurrent request.
func TestErasuresTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := opener(t, d)(storetest.Options{})
		n := notify.NewSend{Send: notify.Send{ClientID: "c", KindID: "k", Received: time.Now(), Expanded: true,
			Audiences: []notify.Audience{{Type: notify.ToUser, ID: "dora"}}}, Recipients: []notify.Recipient{{UserID: "dora"}}}
		_, _, err := s.Accept(t.Context(), n)
		testkit.Must(t, err)
		claimed, err := s.Claim(t.Context(), "w", 1, time.Hour) // erasures of the recipient wait for the delivery
		if err != nil || len(claimed) != 1 {
			t.Fatalf("%d claimed, %v", len(claimed), err)
		}
		testkit.Must(t, d.Update(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
				INSERT INTO notify_erasures (id, client_id, user_id, email, addresses, created, finished)
				SELECT 'e' || n.i, 'c', 'x', '', '', 0, 0 FROM n`, notify.MaxErasures-2)
			return err
		}))
		var all sync.WaitGroup
		var taken, refused atomic.Int64
		for i := range 12 {
			all.Go(func() {
				_, err := s.Erase(t.Context(), notify.Erasure{ID: fmt.Sprint("more-", i),
					Person: notify.Person{ClientID: "c", UserID: "dora"}})
				switch {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, notify.ErrTooMany):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if taken.Load() != 2 || refused.Load() != 10 {
			t.Errorf("%d were taken and %d refused, want 2 and 10", taken.Load(), refused.Load())
		}
	})
}

// TestTopicsFull lets nobody subscribe when a client has as many subscribers as it may.
func TestTopicsFull(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			d := dbtest.New(t, dialect)
			s := opener(t, d)(storetest.Options{})
			ref := notify.TopicRef{ClientID: "c", Name: "news"}
			if _, err := s.SetTopic(t.Context(), notify.Topic{TopicRef: ref}); err != nil {
				t.Fatal(err)
			}
			if err := d.Update(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec("UPDATE notify_topics SET held = ?", notify.MaxSubscribers-1)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Subscribe(t.Context(), ref, []string{"ann", "bob"}); !errors.Is(err, notify.ErrTooMany) {
				t.Errorf("two more: %v", err)
			}
			join := notify.PreferenceChange{Topics: map[notify.TopicRef]bool{ref: true}}
			if err := s.ChangePreferences(t.Context(), "ann", join); err != nil {
				t.Errorf("one more: %v", err)
			}
			if err := s.ChangePreferences(t.Context(), "bob", join); !errors.Is(err, notify.ErrTooMany) {
				t.Errorf("another: %v", err)
			}
		})
	}
}

// TestDigestsOfLists ends digests whose entries are in lists: of a block of recipients, only the one who is wanted is
// decoded.
//
//nolint:paralleltest // it counts the allocations of the process
func TestDigestsOfLists(t *testing.T) {
	d, err := db.Open(t.Context(), db.Options{URL: dbtest.URL(t, db.SQLite), Keys: dbtest.Keys(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // the database is thrown away
	s, err := notifydb.Open(t.Context(), d, notifydb.Options{QueueLimit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	const lists = 4
	collectLists(t, s, lists, notify.ListBlock)
	n := testing.AllocsPerRun(3, func() {
		closed, err := s.CloseDigests(t.Context(), 1, func(c notify.Content) string { return c.Text })
		if err != nil || closed.Entries != lists {
			t.Errorf("%d entries, %v, want %d", closed.Entries, err, lists)
		}
	})
	if n > 2*lists*notify.ListBlock {
		t.Errorf("%.0f allocations for a digest of %d entries", n, lists)
	}
}
