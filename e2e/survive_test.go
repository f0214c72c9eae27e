package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"ingot/internal/base/testkit"
)

// TestAppsSurviveKill kills the server under a running app.
func TestAppsSurviveKill(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) { appSurvives(t, s, 2) })
}

// TestAppsSurviveKillSoak does the same many times.
func TestAppsSurviveKillSoak(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("INGOT_SOAK is not set")
	}
	onEngines(t, func(t *testing.T, s *site) { appSurvives(t, s, 50) })
}

// location is the instance and address that an app reports.
type location struct {
	Number    int64
	PID       int
	Namespace string
}

// direct sends requests to an instance without the server.
type direct struct {
	client  *http.Client
	address string
}

func (d *direct) ask(ctx context.Context) (p location, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+"/where", nil)
	if err != nil {
		return p, err
	}
	res, err := d.client.Do(req)
	if err != nil {
		return p, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	return p, err
}

// appSurvives has an app that writes numbers and gets requests continuously while
// the server is killed and restarted.
func appSurvives(t *testing.T, s *site, kills int) {
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady", "--no-start")...)
	cfOK(t, home, "set-env", "steady", "NUMBERS", "10ms")
	cfOK(t, home, "start", "steady")
	app := guid(t, home, "steady")
	instance := s.running(t, app, 1)[0]
	row := s.stats(t, app)[0]
	if len(row.Ports) != 1 {
		t.Fatalf("the instance has the ports %v", row.Ports)
	}
	d := &direct{client: newClient(), address: net.JoinHostPort(row.Internal, strconv.Itoa(row.Ports[0].Internal))}
	defer d.client.CloseIdleConnections()
	if s.options.Engine == "process" {
		d.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(row.Ports[0].External))
	}
	before, err := d.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	// Requests that do not pass through the server never fail.
	ctx, stop := context.WithCancel(t.Context())
	var asked atomic.Int64
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for ctx.Err() == nil {
			now, err := d.ask(ctx)
			if ctx.Err() != nil {
				return
			}
			if err == nil && (now.PID != before.PID || now.Namespace != before.Namespace) {
				err = fmt.Errorf("the app is another process: %+v, was %+v", now, before)
			}
			if err != nil {
				failed <- fmt.Errorf("request %d: %w", asked.Load(), err)
				return
			}
			asked.Add(1)
		}
	}()
	goOn := func(more int64) {
		t.Helper()
		from := asked.Load()
		testkit.Eventually(t, "the app is asked directly", func() bool {
			select {
			case err := <-failed:
				t.Fatalf("a request past the server: %v", err)
			default:
			}
			return asked.Load() >= from+more
		})
	}
	lines := s.checkLog(app, instance)
	for range kills {
		goOn(1 + rand.Int64N(100))
		s.Kill9(t)
		goOn(100)
		s.Restart(t)
		s.reaches(t, "steady", "/", http.StatusOK)
		if now := s.running(t, app, 1)[0]; now != instance {
			t.Fatalf("instance %s after the restart, %s before it", now, instance)
		}
		lines.read(t)
	}
	goOn(100)
	stop()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	last, err := d.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests past the server, %d numbers", asked.Load(), last.Number)
	contains(t, columns(cfOK(t, home, "app", "steady")), "instances: 1/1", "#0 running")
	if events := cfOK(t, home, "events", "steady"); strings.Contains(events, "crash") {
		t.Errorf("it counts as a crash:\n%s", events)
	}
	lines.read(t)
}

// countNumbers checks that the log has every number up to a last one, in order
// and once.
func countNumbers(t *testing.T, s *site, app, instance string, last int64) {
	t.Helper()
	countNumbersFrom(t, s, app, instance, 1, last)
}

// countNumbersFrom does the same from a first number on; the log may begin later than the app.
// It reads the log again when numbers are missing: while others write, a page of it can end
// with a line that is newer than one of the app which has not arrived.
func countNumbersFrom(t *testing.T, s *site, app, instance string, first, last int64) {
	t.Helper()
	var wrong string
	defer func() {
		if t.Failed() {
			t.Log(wrong)
		}
	}()
	testkit.Eventually(t, "the log has all numbers, in order and once", func() bool {
		var numbers []int64
		for _, l := range s.log(t, app) {
			if text, ok := strings.CutPrefix(l.Text, "number "+instance+" "); ok {
				n, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					t.Fatalf("half a line: %q", l.Text)
				}
				numbers = append(numbers, n)
			}
		}
		wrong = wrongNumbers(numbers, first, last)
		return wrong == ""
	})
}

// wrongNumbers says what is wrong with the numbers of a log.
func wrongNumbers(numbers []int64, first, last int64) string {
	if len(numbers) == 0 || numbers[len(numbers)-1] < last {
		return fmt.Sprintf("%d numbers up to %v, want %d", len(numbers), numbers[max(0, len(numbers)-1):], last)
	}
	if numbers[0] > first {
		return fmt.Sprintf("the log begins with number %d, want %d or less", numbers[0], first)
	}
	for i, n := range numbers {
		if n != numbers[0]+int64(i) {
			return fmt.Sprintf("line %d of the log has number %d; around it %v", i+1, n,
				numbers[max(0, i-5):min(len(numbers), i+5)])
		}
	}
	return ""
}
