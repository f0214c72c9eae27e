package delivery

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/notifydb"
)

// upload accepts sends with lists, several at once, until it is killed.
func (v victim) upload(ctx context.Context, store *notifydb.Store) error {
	key, err := store.IDKey(ctx)
	if err != nil {
		return err
	}
	ids, err := notify.NewIDs(key)
	if err != nil {
		return err
	}
	kinds := []notify.Kind{{ClientID: "shop", ID: "news", Description: "News"}}
	if err := store.Register(ctx, notify.Client{ID: "shop"}, kinds, false); err != nil {
		return err
	}
	service := actions.New(actions.Options{Store: store, Directory: newPeople(0), IDs: ids})
	failed := make(chan error)
	for range 4 {
		go func() {
			for {
				receipt, err := service.Send(ctx, actions.Request{
					Client: "shop", KindID: "news", Content: notify.Content{Text: "text"}, Async: true,
					Audiences: []notify.Audience{{Type: notify.ToList}},
					Members: func(yield func(notify.Member, error) bool) {
						for i := range v.Uploads {
							data := json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
							if !yield(notify.Member{Email: fmt.Sprintf("user%d@example.com", i), Data: data}, nil) {
								return
							}
						}
					},
				})
				if err == nil {
					_, err = fmt.Fprintln(os.Stdout, receipt.Send.Number)
				}
				if err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

// TestKillDuringUpload kills the server with SIGKILL while lists of recipients are stored. Every send has its
// complete list, whether it was acknowledged or not; a list without a send has no messages, and is deleted after a day.
func TestKillDuringUpload(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			v := victim{Database: dbtest.URL(t, dialect), Key: seal.NewKey(), Uploads: 5*notify.ListBlock + 7}
			acknowledged := v.killWhileUploading(t, 4)
			d, store, err := v.open(t.Context())
			testkit.Must(t, err)
			defer d.Close()
			count := func(query string) (n int) {
				t.Helper()
				testkit.Must(t, d.View(t.Context(), func(tx *db.Tx) error { return tx.QueryRow(query).Scan(&n) }))
				return n
			}
			sends, err := store.ListSends(t.Context(), notify.SendQuery{ClientID: "shop", Limit: 10_000})
			testkit.Must(t, err)
			for _, s := range sends {
				delete(acknowledged, s.Number)
				members := 0
				for position := 0; ; position += notify.ListBlock {
					block, err := store.ListedMembers(t.Context(), s.List(), position)
					testkit.Must(t, err)
					if members += len(block); len(block) == 0 {
						break
					}
				}
				if members != v.Uploads {
					t.Errorf("send %d has a list of %d recipients, want %d", s.Number, members, v.Uploads)
				}
			}
			if len(acknowledged) > 0 {
				t.Errorf("%d sends were acknowledged and are not stored", len(acknowledged))
			}
			const orphans = `SELECT COUNT(*) FROM notify_messages AS m
				WHERE NOT EXISTS (SELECT 1 FROM notify_sends AS s WHERE s.number = m.number / 16777216)`
			if n := count(orphans); n != 0 {
				t.Errorf("%d messages have no send", n)
			}
			left := count("SELECT COUNT(*) FROM notify_lists WHERE send = 0")
			t.Logf("%d sends, %d lists without one", len(sends), left)

			// A day later, what no send uses is gone, and the rest is not.
			later, err := notifydb.Open(t.Context(), d, notifydb.Options{
				Now: func() time.Time { return time.Now().Add(25 * time.Hour) }})
			testkit.Must(t, err)
			_, err = later.Purge(t.Context(), time.Now().Add(-time.Hour))
			testkit.Must(t, err)
			lists := count("SELECT COUNT(*) FROM notify_lists")
			if blocks := count("SELECT COUNT(*) FROM notify_list_members"); lists != len(sends) || blocks != 6*len(sends) {
				t.Errorf("%d lists with %d blocks are left of %d sends", lists, blocks, len(sends))
			}
		})
	}
}

// killWhileUploading returns the numbers of sends that were acknowledged before each kill.
func (v victim) killWhileUploading(t *testing.T, kills int) map[int64]bool {
	t.Helper()
	acknowledged := map[int64]bool{}
	for range kills {
		cmd := v.command(t)
		out, err := cmd.StdoutPipe()
		testkit.Must(t, err)
		testkit.Must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for until := len(acknowledged) + 1 + rand.IntN(4); lines.Scan(); {
			number, err := strconv.ParseInt(lines.Text(), 10, 64)
			testkit.Must(t, err)
			acknowledged[number] = true
			if len(acknowledged) == until { // those that it prints until it is dead count too
				testkit.Must(t, cmd.Process.Kill())
			}
		}
		cmd.Wait() //nolint:errcheck // it was killed
	}
	return acknowledged
}
