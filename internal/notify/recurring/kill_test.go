package recurring_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
	"ingot/internal/notify/notifydb"
	"ingot/internal/notify/recurring"
)

// childVariable makes the test binary a server that sends until it is killed.
const childVariable = "INGOT_RECURRING_TEST_CHILD"

// victim is what such a server is given. Its clock is fast, and the same in all of them.
type victim struct {
	Database, Key string
	Epoch         time.Time
}

const speed = 6000 // a minute takes 10 ms

func (v victim) now() time.Time { return v.Epoch.Add(speed * time.Since(v.Epoch)) }

func (v victim) open(ctx context.Context) (*db.DB, *notifydb.Store, error) {
	keys, err := seal.Parse(v.Key)
	if err != nil {
		return nil, nil, err
	}
	d, err := db.Open(ctx, db.Options{URL: v.Database, Keys: keys})
	if err != nil {
		return nil, nil, err
	}
	store, err := notifydb.Open(ctx, d, notifydb.Options{Now: v.now})
	return d, store, err
}

// runner sends what is due, and prints a line for each.
func (v victim) runner(store *notifydb.Store, out io.Writer) *recurring.Runner {
	service := actions.New(actions.Options{Store: store, Directory: &apitest.Directory{}})
	return recurring.New(recurring.Options{Store: store, Now: v.now, Poll: 10 * time.Millisecond, Lease: 20 * time.Minute,
		Send: func(ctx context.Context, r actions.Request) (actions.Receipt, error) {
			receipt, err := service.Send(ctx, r)
			if err == nil {
				fmt.Fprintln(out, r.Occurrence.Name)
			}
			return receipt, err
		}})
}

func child() int {
	var v victim
	err := json.Unmarshal([]byte(os.Getenv(childVariable)), &v)
	var store *notifydb.Store
	if err == nil {
		_, store, err = v.open(context.Background())
	}
	if err == nil {
		err = v.runner(store, os.Stdout).Start(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the child cannot send:", err)
		return 1
	}
	// The parent ends it; should the parent end first, its end of the pipe does.
	os.Stdin.Read(make([]byte, 1)) //nolint:errcheck // any end will do
	return 0
}

// life starts a child, kills it after it has sent so many, and returns how many it said it sent.
func (v victim) life(t *testing.T, lines int) (sent int) {
	text, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
		return 0
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Error(err)
		return 0
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return 0
	}
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		if sent++; sent == lines {
			cmd.Process.Kill() //nolint:errcheck // it may have failed, which Wait shows
		}
	}
	cmd.Wait() //nolint:errcheck // it was killed
	return sent
}

// TestSoakKill kills servers with SIGKILL while they send what recurs every minute, one on SQLite and two on
// PostgreSQL: in the end each has been sent exactly as often as it should. INGOT_SOAK=1 makes it the long form.
func TestSoakKill(t *testing.T) {
	t.Parallel()
	const names = 20
	rounds, count := 5, 40
	if os.Getenv("INGOT_SOAK") == "1" {
		rounds, count = 100, 800
	}
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			v := victim{Database: dbtest.URL(t, dialect), Key: seal.NewKey(), Epoch: time.Now().Round(0)}
			d, store, err := v.open(t.Context())
			testkit.Must(t, err)
			testkit.Must(t, store.Register(t.Context(), notify.Client{ID: "shop"}, []notify.Kind{{ClientID: "shop",
				ID: "news", Description: "News"}}, false))
			for i := range names {
				one := notify.Recurring{RecurringRef: notify.RecurringRef{ClientID: "shop", Name: fmt.Sprint("n", i)},
					Timetable: notify.Timetable{Cron: "* * * * *", Zone: "Europe/Berlin", Count: count},
					Message: notify.RecurringMessage{KindID: "news", Content: notify.Content{Subject: "S", Text: "T"},
						Members: []notify.Member{{Email: "a@example.com"}}}, Created: v.now(), Updated: v.now()}
				testkit.Must(t, recurring.Begin(&one, v.now()))
				testkit.Must(t, store.SetRecurring(t.Context(), one))
			}
			servers := 1
			if store.Shared() {
				servers = 2
			}
			testkit.Must(t, d.Close())
			said := 0
			for range rounds {
				done := make(chan int)
				for range servers {
					go func() { done <- v.life(t, 1+rand.IntN(60/servers)) }()
				}
				for range servers {
					said += <-done
				}
			}
			d, store, err = v.open(t.Context())
			testkit.Must(t, err)
			defer d.Close()
			last := v.runner(store, io.Discard)
			testkit.Must(t, last.Start(t.Context()))
			var list []notify.Recurring
			testkit.Eventually(t, "all have ended", func() bool {
				list, err = store.ListRecurring(t.Context(), notify.RecurringQuery{All: true, Limit: names})
				testkit.Must(t, err)
				for _, one := range list {
					if one.State != notify.RecurringEnded {
						return false
					}
				}
				return true
			})
			last.Stop()
			for _, one := range list {
				if one.Runs != count || one.Failures != 0 {
					t.Errorf("%s was sent %d times with %d failures, want %d", one.Name, one.Runs, one.Failures, count)
				}
			}
			n, err := store.Waiting(t.Context())
			if err != nil || n != names*count || said > n || said < rounds {
				t.Errorf("%d messages (%v), want %d; %d were acknowledged", n, err, names*count, said)
			}
		})
	}
}
