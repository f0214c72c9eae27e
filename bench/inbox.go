package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var inboxSection = Section{
	Name: "inbox",
	About: "open streams of inboxes, one for each of many users: the memory of the server, and the time from the " +
		"request that sends to the event on the stream",
	Run: measureInbox,
}

// The goals: the maximum memory of the server in MB of a million bytes, and the 99th percentile of the time from a send
// to its event in milliseconds.
const (
	streamsMemory = 200
	eventGoal     = 100
)

func measureInbox(ctx context.Context, r *Report) error {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		r.Note("skipped: this system has no /proc")
		return nil //nolint:nilerr // it says so
	}
	return onBoth(ctx, r, measureInboxOn)
}

func measureInboxOn(ctx context.Context, r *Report, name, postgres string) (err error) {
	streams, sends, apart, settle := 10_000, 3000, 20*time.Millisecond, 30*time.Second
	if r.Short {
		streams, sends, settle = 200, 50, time.Second
	}
	// The server is started by this process and may open as many files.
	allowed, err := allowedFiles(uint64(4 * streams))
	if err != nil {
		return err
	}
	if room := int(allowed)*4/5 - 500; room < streams {
		r.Note("%d streams instead of %d: a process may open %d files here.", room, streams, allowed)
		streams = room
	}
	m, err := r.startMailing(ctx, postgres)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	if err := m.fill(ctx, streams); err != nil {
		return err
	}
	if _, err := m.notify(ctx, http.MethodPut, "/kinds/news/channels", m.tokens[0], `{"channels":["inbox"]}`); err != nil {
		return err
	}
	before, err := residentMemory(m.PID)
	if err != nil {
		return err
	}
	all, err := m.openStreams(ctx)
	defer func() { err = errors.Join(err, all.close()) }()
	if err != nil {
		return err
	}
	server := processorTime(m.PID)
	if err := pause(ctx, settle); err != nil {
		return err
	}
	idle := processorTime(m.PID) - server
	open, err := residentMemory(m.PID)
	if err != nil {
		return err
	}
	if err := forgetPeak(m.PID); err != nil {
		r.Note("the peak of memory is that since the start of the server: %s", err)
	}
	took, health, err := all.sendEach(ctx, m, sends, apart)
	if err != nil {
		return err
	}
	toAll, err := all.sendAll(ctx, m)
	if err != nil {
		return err
	}
	peak, err := peakMemory(m.PID)
	if err != nil {
		return err
	}
	limit := &Beside{"limit", streamsMemory}
	r.Add(Figure{Name: fmt.Sprintf("%s: %d open streams, VmRSS", name, streams), Value: open.total, Unit: "MB",
		Beside: limit, Goal: Below(streamsMemory), Detail: fmt.Sprintf("%.1f kB each; %.1f ms of processor time in a second "+
			"with their heartbeats", (open.total-before.total)*1000/float64(streams), millis(idle)/settle.Seconds())})
	r.Add(Figure{Name: name + ": peak while they get events, VmHWM", Value: peak, Unit: "MB", Beside: limit,
		Goal: Below(streamsMemory)})
	r.Add(Figure{Name: fmt.Sprintf("%s: send to event, p99 of %d", name, len(took)), Value: millis(percentile(took, 0.99)),
		Unit: "ms", Goal: Below(eventGoal), Beside: &Beside{"GET /healthz meanwhile", millis(percentile(health, 0.99))},
		Detail: fmt.Sprintf("one send every %s, median %.0f ms beside %.0f ms, p99.9 %.0f ms, worst %.0f ms", apart,
			millis(percentile(took, 0.5)), millis(percentile(health, 0.5)), millis(percentile(took, 0.999)),
			millis(took[len(took)-1]))})
	r.Add(Figure{Name: name + ": a send to everyone, until its last event", Value: toAll.Seconds(), Unit: "s"})
	return nil
}

// inboxStreams are open streams, each of another user.
type inboxStreams struct {
	all  []*inboxStream
	work sync.WaitGroup
	// got counts events, closed streams that ended.
	got, closed atomic.Int64
}

type inboxStream struct {
	user string
	conn net.Conn
	// at has the time of each event.
	at chan time.Time
}

// openStreams opens a stream for each user, and waits for the first event of each.
func (m *mailing) openStreams(ctx context.Context) (*inboxStreams, error) {
	all := &inboxStreams{}
	ids, err := m.userIDs(ctx)
	if err != nil {
		return all, err
	}
	for _, id := range ids {
		all.all = append(all.all, &inboxStream{user: id, at: make(chan time.Time, 8)})
	}
	queue := make(chan *inboxStream, len(all.all))
	for _, s := range all.all {
		queue <- s
	}
	close(queue)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: openedAtOnce}}
	defer client.CloseIdleConnections()
	errs := make([]error, openedAtOnce)
	var opening sync.WaitGroup
	for i := range errs {
		opening.Go(func() {
			for s := range queue {
				token, err := m.inboxToken(ctx, client, s.user)
				if err == nil {
					err = all.open(ctx, m.Notifications, s, token)
				}
				if errs[i] = err; err != nil {
					return
				}
			}
		})
	}
	opening.Wait()
	return all, errors.Join(errs...)
}

// inboxToken issues a token for a user.
func (m *mailing) inboxToken(ctx context.Context, client *http.Client, user string) (string, error) {
	body := strings.NewReader(fmt.Sprintf(`{"user_id":%q}`, user))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.Notifications+"/inbox/tokens", body)
	if err != nil {
		return "", err
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + m.tokens[0]}}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusCreated {
		err = fmt.Errorf("POST /inbox/tokens: %s: %s", res.Status, answer)
	}
	var made struct{ Token string }
	if err == nil {
		err = json.Unmarshal(answer, &made)
	}
	return made.Token, err
}

// open opens a stream and reads it until it is closed.
func (all *inboxStreams) open(ctx context.Context, addr string, s *inboxStream, token string) error {
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	s.conn = conn
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := conn.Write(get(addr, "/inbox/events", "Authorization: Bearer "+token)); err != nil {
		return err
	}
	events := bufio.NewReaderSize(conn, 2<<10)
	begins := func(what string) error {
		for {
			line, err := events.ReadString('\n')
			if err != nil || strings.HasPrefix(line, "HTTP/1.1") && !strings.HasPrefix(line, "HTTP/1.1 200") {
				return fmt.Errorf("stream of an inbox: %q, %w", line, err)
			}
			if strings.HasPrefix(line, what) {
				return nil
			}
		}
	}
	if err := begins("event: ready"); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	all.work.Go(func() {
		defer all.closed.Add(1)
		for {
			line, err := events.ReadSlice('\n')
			if err != nil {
				return
			}
			if bytes.HasPrefix(line, []byte("event: notification")) {
				now := time.Now()
				all.got.Add(1)
				select {
				case s.at <- now:
				default:
				}
			}
		}
	})
	return nil
}

// close closes the streams. It fails if one had ended before.
func (all *inboxStreams) close() (err error) {
	if n := all.closed.Load(); n > 0 {
		err = fmt.Errorf("the server closed %d streams", n)
	}
	for _, s := range all.all {
		if s.conn != nil {
			_ = s.conn.Close()
		}
	}
	all.work.Wait()
	return err
}

// sendEach sends to one user after another, at fixed times whether or not the earlier events have come, and returns the
// sorted times from the beginning of a request to its event. health are those of requests for nothing, one with each
// send: how long the machine makes anything wait.
func (all *inboxStreams) sendEach(ctx context.Context, m *mailing, sends int, apart time.Duration) (took,
	health []time.Duration, err error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: openedAtOnce}, Timeout: patience}
	defer client.CloseIdleConnections()
	took, health = make([]time.Duration, sends), make([]time.Duration, sends)
	errs := make([]error, 2*sends)
	var sending sync.WaitGroup
	tick := time.NewTicker(apart)
	defer tick.Stop()
	for i := range sends {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		began := time.Now()
		sending.Go(func() { took[i], errs[i] = m.untilEvent(ctx, client, all.all[i%len(all.all)], began) })
		sending.Go(func() {
			errs[sends+i] = call(ctx, client, http.MethodGet, m.Notifications, "/healthz", "", "")
			health[i] = time.Since(began)
		})
	}
	sending.Wait()
	slices.Sort(took)
	slices.Sort(health)
	return took, health, errors.Join(errs...)
}

// untilEvent sends to a user, and returns the time from began to the event on the user's stream.
func (m *mailing) untilEvent(ctx context.Context, client *http.Client, s *inboxStream, began time.Time) (time.Duration,
	error) {
	if err := call(ctx, client, http.MethodPost, m.Notifications, "/users/"+s.user, m.tokens[0], news); err != nil {
		return 0, err
	}
	select {
	case at := <-s.at:
		return at.Sub(began), nil
	case <-time.After(patience):
		return 0, fmt.Errorf("no event within %s", patience)
	}
}

// call makes a request whose response must be 200.
func call(ctx context.Context, client *http.Client, method, addr, path, token, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if token != "" {
		req.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err = io.Copy(io.Discard, res.Body); err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, path, res.Status)
	}
	return err
}

// sendAll sends to everyone, and returns how long it takes until each stream has its event.
func (all *inboxStreams) sendAll(ctx context.Context, m *mailing) (time.Duration, error) {
	want := all.got.Load() + int64(len(all.all))
	began := time.Now()
	if _, err := m.notify(ctx, http.MethodPost, "/everyone", m.tokens[0], news); err != nil {
		return 0, err
	}
	if err := m.sink.await(ctx, &all.got, want); err != nil {
		return 0, fmt.Errorf("events: %w\n%s", err, m.tail())
	}
	return time.Since(began), nil
}
