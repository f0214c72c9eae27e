package delivery

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb"
)

var toDora = notify.Person{All: true, UserID: "dora", Email: "dora@example.com"}

// erase erases dora until it is killed.
func (v victim) erase(ctx context.Context, store *notifydb.Store) error {
	failed := make(chan error, 1)
	go func() {
		_, err := store.Erase(ctx, notify.Erasure{ID: "erasure", Person: toDora})
		failed <- err
		<-ctx.Done()
	}()
	for {
		select {
		case err := <-failed:
			if err != nil {
				return err
			}
		default:
		}
		if e, err := store.Erasure(ctx, "erasure"); err == nil && e.Messages >= v.Erases {
			fmt.Fprintln(os.Stdout, e.Messages)
			<-ctx.Done()
			return nil
		}
	}
}

// remember stores much about dora, and something about others.
func remember(t *testing.T, store *notifydb.Store, sends int) {
	t.Helper()
	ctx := t.Context()
	suppression := notify.Suppression{Email: "dora@example.com", Source: "bounce", Created: time.Now()}
	testkit.Must(t, store.Suppress(ctx, suppression))
	for i := range sends {
		to := notify.Recipient{UserID: "dora", Email: "dora@example.com"}
		n := notify.NewSend{Send: notify.Send{ClientID: "shop", KindID: "news", Received: time.Now(), Expanded: true,
			Audiences: []notify.Audience{{Type: notify.ToUser, ID: "dora"}}, Content: notify.Content{Subject: "Dear Dora"}},
			Recipients: []notify.Recipient{to}}
		if i%4 == 0 {
			n.Audiences = []notify.Audience{{Type: notify.ToSpace, ID: "space"}}
			n.Recipients = append(n.Recipients, notify.Recipient{UserID: "ann", Email: "ann@example.com"})
		}
		_, _, err := store.Accept(ctx, n)
		testkit.Must(t, err)
	}
}

// TestKillWhileErasing kills a server in the middle of an erasure, at different places. The next one finishes it, and
// others lose nothing.
func TestKillWhileErasing(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		for _, after := range []int{1, 40, 79} {
			t.Run(fmt.Sprint(dialect, "/", after), func(t *testing.T) {
				t.Parallel()
				const sends = 80
				v := victim{Database: dbtest.URL(t, dialect), Key: seal.NewKey(), Dir: t.TempDir(), Erases: after}
				d, store, err := v.open(t.Context())
				testkit.Must(t, err)
				remember(t, store, sends)
				testkit.Must(t, d.Close())

				cmd := v.command(t)
				out, err := cmd.StdoutPipe()
				testkit.Must(t, err)
				testkit.Must(t, cmd.Start())
				_, err = bufio.NewReader(out).ReadString('\n')
				testkit.Must(t, err)
				testkit.Must(t, cmd.Process.Kill())
				cmd.Wait() //nolint:errcheck // it was killed

				d, store, err = v.open(t.Context())
				testkit.Must(t, err)
				defer d.Close()
				rest := &post{}
				next := New(Options{Store: store, Directory: newPeople(0), Channel: rest, IDs: testIDs(t), Dir: v.Dir})
				testkit.Must(t, next.Start(t.Context()))
				defer next.Stop()
				testkit.Eventually(t, "the erasure is finished", func() bool {
					e, err := store.Erasure(t.Context(), "erasure")
					return err == nil && !e.Finished.IsZero()
				})
				checkErased(t, store, sends)
			})
		}
	}
}

// checkErased sees that nothing of dora is left, and that each message of others is.
func checkErased(t *testing.T, store *notifydb.Store, sends int) {
	t.Helper()
	testkit.Must(t, store.ShowPerson(t.Context(), toDora, func(v any) error {
		t.Errorf("left: %+v", v)
		return nil
	}))
	there, err := store.Suppressed(t.Context(), []string{"dora@example.com"})
	testkit.Must(t, err)
	if !there["dora@example.com"] {
		t.Error("her address is not suppressed any more")
	}
	all, err := store.FindMessages(t.Context(), notify.MessageQuery{All: true, Limit: 10 * sends})
	testkit.Must(t, err)
	anns := 0
	for _, m := range all {
		if m.UserID == "ann" {
			anns++
		}
	}
	if len(all) != sends+sends/4 || anns != sends/4 {
		t.Errorf("%d messages, %d of them to ann, want %d and %d", len(all), anns, sends+sends/4, sends/4)
	}
}
