package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// silence is how long a stream may be silent before it is considered dead; an
	// idle server sends a keep-alive three times as often.
	silence = 45 * time.Second
	// The delays before a broken stream is reopened.
	reopenFirst = 50 * time.Millisecond
	reopenLast  = 2 * time.Second
	// reopenTries is the maximum number of failed attempts in a row, about a
	// minute.
	reopenTries = 30
	// firstTries is the maximum number of failed attempts before the first
	// stream.
	firstTries = 3
	// maxEvent limits the size of an event; the longest line of a server is far
	// shorter.
	maxEvent = 16 << 20
)

// errNoStream means that the server has no stream of this log.
var errNoStream = errors.New("the server has no live tail")

// LiveTail follows a log as a stream of events, which Ingot offers in addition to
// log-cache's API: a line is shown as soon as the server has it. A broken stream
// is resumed after its last line. Without such a stream, as on any other Cloud
// Foundry, log-cache is polled.
func (c *Client) LiveTail(base string) Tail {
	poll := c.PollTail(base)
	return func(ctx context.Context, app string, since time.Time, show func(Line)) error {
		f := &follower{client: c, url: base + "/api/v1/tail/" + url.PathEscape(app), since: since, show: show}
		err := f.run(ctx)
		if errors.Is(err, errNoStream) {
			return poll(ctx, app, since, show)
		}
		return err
	}
}

// follower reads one log, over several streams if necessary.
type follower struct {
	client *Client
	url    string
	since  time.Time
	show   func(Line)
	last   string // id of the last event, if any
	opened bool   // a stream was opened
	token  string // token of the last request
}

// streamEnd is sent by the server at the end of a stream.
type streamEnd struct {
	Reason string `json:"reason"`
	Resume bool   `json:"resume"` // the client can reconnect
}

func (e *streamEnd) Error() string { return "the log has ended: " + e.Reason }

func (f *follower) run(ctx context.Context) error {
	pause, failures, renewed := reopenFirst, 0, false
	for {
		began := time.Now()
		got, err := f.stream(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // canceled by the caller
		}
		if got || f.opened && time.Since(began) > reopenLast {
			pause, failures, renewed = reopenFirst, 0, false
		}
		var end *streamEnd
		switch status := Status(err); {
		case errors.As(err, &end) && end.Resume:
			continue // the next one uses the new token
		case errors.As(err, &end), errors.Is(err, errNoStream), errors.Is(err, ErrLoggedOut):
			return err
		case status == http.StatusUnauthorized && !renewed:
			renewed = true // the server may reject a token before its expiry
			if _, err := f.client.renew(ctx, f.token); err != nil {
				return err
			}
			continue
		case status == http.StatusTooManyRequests, status >= http.StatusInternalServerError, status == 0:
		default:
			return err
		}
		failures++
		switch {
		case !f.opened && failures == firstTries:
			return errNoStream
		case failures > reopenTries:
			return err
		}
		if failures == 2 && f.client.Warn != nil { // a single failure is normal and loses nothing
			f.client.Warn(fmt.Sprintf("the log was interrupted: %v; reconnecting", err))
		}
		_ = wait(ctx, pause) // the loop checks ctx
		pause = min(reopenLast, 2*pause)
	}
}

// stream reads one stream until it ends. got reports whether it delivered
// anything readable: a stream that never does must not be reopened forever.
func (f *follower) stream(ctx context.Context) (got bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errors.New("the server sent nothing for too long")) })
	defer quiet.Stop()
	answer, err := f.open(ctx)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	f.opened = true
	in := bufio.NewScanner(answer.Body)
	in.Buffer(make([]byte, 0, 64<<10), maxEvent)
	var e sseEvent
	for in.Scan() {
		if e.add(in.Bytes()) {
			continue
		}
		quiet.Reset(silence)
		if err := f.event(&e); err != nil {
			var end *streamEnd
			return got || errors.As(err, &end), err
		}
		got = got || len(e.data) > 0
		e = sseEvent{data: e.data[:0]}
	}
	return got, cmp.Or(context.Cause(ctx), in.Err(), io.ErrUnexpectedEOF)
}

// open requests a stream after the last line, or from the start time.
func (f *follower) open(ctx context.Context) (*http.Response, error) {
	call := Call{Method: http.MethodGet, URL: f.url, Accept: "text/event-stream", Query: url.Values{}}
	if f.last != "" {
		call.Header = http.Header{"Last-Event-Id": {f.last}}
	} else {
		call.Query.Set("start_time", strconv.FormatInt(f.since.UnixNano(), 10))
	}
	req, err := f.client.request(ctx, call)
	if err != nil {
		return nil, err
	}
	if f.token, err = f.client.Token(ctx); err != nil {
		return nil, err
	}
	if f.token != "" {
		req.Header.Set("Authorization", "bearer "+f.token)
	}
	answer, err := f.client.http.Do(req)
	if err != nil {
		return nil, explain(f.client.API, err)
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return answer, nil
	}
	defer answer.Body.Close()
	switch {
	case f.opened && answer.StatusCode == http.StatusNotFound:
		return nil, &streamEnd{Reason: "the app is no longer there, or you may no longer read its log"}
	case !f.opened && answer.StatusCode != http.StatusUnauthorized && answer.StatusCode < http.StatusInternalServerError,
		answer.StatusCode == http.StatusNotImplemented:
		// A server without this endpoint may still have the log in log-cache, or
		// return a better error; so may one that has reached its limit of
		// streams.
		return nil, errNoStream
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // the reason, as far as it can be read
	return nil, newError(call, &Reply{Status: answer.StatusCode, Header: answer.Header, Body: body})
}

// event handles one event of the stream.
func (f *follower) event(e *sseEvent) error {
	if e.name == "end" {
		end := &streamEnd{Reason: "the server does not say why"}
		_ = json.Unmarshal(e.data, end) // use the text as the reason
		return end
	}
	if len(e.data) > 0 {
		var one envelope
		if err := json.Unmarshal(e.data, &one); err != nil {
			return fmt.Errorf("invalid event in the live tail: %w", err)
		}
		if l, ok := one.line(); ok {
			f.show(l)
		}
	}
	if e.id != "" {
		f.last = e.id
	}
	return nil
}

// sseEvent is an event of a stream while it is being read.
type sseEvent struct {
	name, id string
	data     []byte
}

// add adds a line of the stream; it returns false when the event is complete.
func (e *sseEvent) add(line []byte) bool {
	if len(line) == 0 {
		return false
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		e.name = string(value)
	case "id":
		e.id = string(value)
	case "data":
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	}
	return true
}
