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
	// silence is after how much of it a stream is taken for dead; a server that
	// has no lines shows three times as often that it is there.
	silence = 45 * time.Second
	// The pauses before a broken stream is opened again.
	reopenFirst = 50 * time.Millisecond
	reopenLast  = 2 * time.Second
	// reopenTries is how often in a row that may fail: for about a minute.
	reopenTries = 30
	// firstTries is how often it may fail before there was a stream at all.
	firstTries = 3
	// maxEvent bounds one event; a server's longest line is far shorter.
	maxEvent = 16 << 20
)

// errNoStream means that the server has no stream of this log to offer.
var errNoStream = errors.New("there is no live tail")

// LiveTail follows a log as a stream of events, which Ingot has beside
// log-cache's API: a line is shown as soon as the server has it. A stream that
// breaks is opened again behind its last line. Where there is no such stream,
// as on any other Cloud Foundry, log-cache is asked again and again.
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

// follower reads one log over as many streams as that takes.
type follower struct {
	client *Client
	url    string
	since  time.Time
	show   func(Line)
	last   string // id of the last event, if there was one
	opened bool   // there was a stream
	token  string // what the last one was asked for with
}

// streamEnd is a server's word that no more will come.
type streamEnd struct {
	Reason string `json:"reason"`
	Resume bool   `json:"resume"` // but for who asks again
}

func (e *streamEnd) Error() string { return "the log has ended: " + e.Reason }

func (f *follower) run(ctx context.Context) error {
	pause, failures, renewed := reopenFirst, 0, false
	for {
		began := time.Now()
		got, err := f.stream(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // ended by who watched
		}
		if got || f.opened && time.Since(began) > reopenLast {
			pause, failures, renewed = reopenFirst, 0, false
		}
		var end *streamEnd
		switch status := Status(err); {
		case errors.As(err, &end) && end.Resume:
			continue // the next one is opened with another token
		case errors.As(err, &end), errors.Is(err, errNoStream), errors.Is(err, ErrLoggedOut):
			return err
		case status == http.StatusUnauthorized && !renewed:
			renewed = true // the server may have other ideas than the token's own end
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
		if failures == 2 && f.client.Warn != nil { // once may happen, and nothing is missing then
			f.client.Warn(fmt.Sprintf("the log has broken off: %v; trying to go on", err))
		}
		_ = wait(ctx, pause) // the loop looks
		pause = min(reopenLast, 2*pause)
	}
}

// stream reads one stream until it ends. got tells whether something came that
// could be read: what never can must not be asked for again without end.
func (f *follower) stream(ctx context.Context) (got bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errors.New("nothing was heard of the server")) })
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

// open asks for a stream behind the last line, or from the given moment.
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
		// Who knows no such address may still know the log, or say better what
		// is wrong; and so may who has streams for others only, at the moment.
		return nil, errNoStream
	}
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // as much of the reason as there is
	return nil, newError(call, &Reply{Status: answer.StatusCode, Header: answer.Header, Body: body})
}

// event shows the line of an event.
func (f *follower) event(e *sseEvent) error {
	if e.name == "end" {
		end := &streamEnd{Reason: "the server does not say why"}
		_ = json.Unmarshal(e.data, end) // then that is the reason
		return end
	}
	if len(e.data) > 0 {
		var one envelope
		if err := json.Unmarshal(e.data, &one); err != nil {
			return fmt.Errorf("the live tail has something that is not an envelope: %w", err)
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

// sseEvent is an event of a stream, while it is read.
type sseEvent struct {
	name, id string
	data     []byte
}

// add takes a line of the stream; false means that the event is whole.
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
