package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sender sends the parts of one signal.
type sender struct {
	signal   string
	endpoint string
	headers  http.Header
	gzip     bool
	timeout  time.Duration
	client   *http.Client
	queue    *queue
	limits   limits
	sent     *counter
}

// limits are those of sending.
type limits struct {
	batch      int           // bytes of a request
	wait       time.Duration // for more to fill a request
	firstPause time.Duration // before the first repetition
	maxPause   time.Duration
	giveUp     time.Duration // a request that was not accepted by then is dropped
}

// work sends until ctx is done. A request that is being sent then has time until last is
// done.
func (s *sender) work(ctx, last context.Context) {
	for s.await(ctx) {
		if p := s.queue.take(s.signal, s.limits.batch); p.body != nil {
			s.deliver(ctx, last, p)
		}
	}
}

// await waits until a batch is due, and reports whether there is still time to send it.
func (s *sender) await(ctx context.Context) bool {
	var due <-chan time.Time
	var timer *time.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		n, more := s.queue.ready(s.signal)
		if n >= s.limits.batch {
			return ctx.Err() == nil
		}
		if n > 0 && due == nil {
			timer = time.NewTimer(s.limits.wait)
			due = timer.C
		}
		select {
		case <-more:
		case <-due:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// flush sends what is left until ctx is done, and counts the rest as dropped.
func (s *sender) flush(ctx context.Context) {
	for {
		p := s.queue.take(s.signal, s.limits.batch)
		if p.body == nil {
			return
		}
		if ctx.Err() != nil {
			s.queue.drop(s.signal, p.items)
			continue
		}
		s.deliver(ctx, ctx, p)
	}
}

// deliver sends a part, and repeats it until it is accepted or refused for good, or ctx is
// done.
func (s *sender) deliver(ctx, last context.Context, p part) {
	until := time.Now().Add(s.limits.giveUp)
	pause := s.limits.firstPause
	for {
		again, after, err := s.try(last, p)
		if err == nil {
			s.sent.add(s.signal, p.items)
			return
		}
		// Up to half of it at random, so that instances do not all come at once.
		wait := max(after, pause/2+rand.N(pause/2+1))
		if !again || time.Now().Add(wait).After(until) {
			slog.Error("dropped, because it was not accepted", "signal", s.signal, "items", p.items, "error", err)
			s.queue.drop(s.signal, p.items)
			return
		}
		slog.Warn("not accepted; it is sent again", "signal", s.signal, "items", p.items, "in", wait.Round(time.Millisecond),
			"error", err)
		pause = min(2*pause, s.limits.maxPause)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			// The app stops: what could not be sent yet goes back in front of the rest, for
			// the last attempt.
			s.queue.back(p)
			return
		}
	}
}

// try sends a part once. again reports whether it may be sent again, and after how long
// the server wants it at the earliest.
func (s *sender) try(ctx context.Context, p part) (again bool, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	body := p.body
	if s.gzip {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		_, _ = z.Write(body) // a buffer does not fail
		_ = z.Close()
		body = out.Bytes()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	for name, values := range s.headers {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", contentType(p.json))
	r.Header.Set("User-Agent", "otel-relay")
	if s.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return true, 0, err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if answer.StatusCode/100 == 2 {
		s.partial(p, text)
		return false, 0, nil
	}
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again, after = true, retryAfter(answer.Header.Get("Retry-After"), time.Now())
	}
	return again, after, fmt.Errorf("%s: %s: %.200q", s.endpoint, answer.Status, bytes.TrimSpace(text))
}

// partial reports items that the server did not accept.
func (s *sender) partial(p part, response []byte) {
	n, message := rejected(response)
	if p.json {
		var answer struct {
			Partial map[string]json.RawMessage `json:"partialSuccess"`
		}
		if json.Unmarshal(response, &answer) != nil {
			return
		}
		n = 0
		for name, raw := range answer.Partial {
			text := strings.Trim(string(raw), `"`) // a number of 64 bits is text in JSON
			if strings.HasPrefix(name, "rejected") {
				n, _ = strconv.ParseInt(text, 10, 64)
			} else {
				message = text
			}
		}
	}
	if n > 0 {
		slog.Warn("the server has not accepted all", "signal", s.signal, "items", p.items, "rejected", n, "message", message)
	}
}

// longestAfter limits what a server can ask for.
const longestAfter = 5 * time.Minute

// retryAfter parses the header: seconds, or a time.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return min(time.Duration(min(n, 3600))*time.Second, longestAfter)
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return min(at.Sub(now), longestAfter)
	}
	return 0
}

func contentType(isJSON bool) string {
	if isJSON {
		return "application/json"
	}
	return "application/x-protobuf"
}
