package client

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Line is a line of an app's log.
type Line struct {
	Time     time.Time
	Source   string // such as APP/PROC/WEB
	Instance string
	Error    bool // written to standard error
	Text     string
}

type envelope struct {
	Timestamp string            `json:"timestamp"`
	Instance  string            `json:"instance_id"`
	Tags      map[string]string `json:"tags"`
	Log       *struct {
		Payload string `json:"payload"`
		Type    string `json:"type"`
	} `json:"log"`
}

func (e envelope) line() (Line, bool) {
	if e.Log == nil {
		return Line{}, false
	}
	text, err := base64.StdEncoding.DecodeString(e.Log.Payload)
	nanos, err2 := strconv.ParseInt(e.Timestamp, 10, 64)
	return Line{time.Unix(0, nanos), e.Tags["source_type"], e.Instance, e.Log.Type == "ERR", string(text)},
		err == nil && err2 == nil
}

// maxLines is the maximum number of lines in a response of log-cache.
const maxLines = 1000

func (c *Client) readLog(ctx context.Context, base, app string, q url.Values) ([]Line, error) {
	var answer struct {
		Envelopes struct {
			Batch []envelope `json:"batch"`
		} `json:"envelopes"`
	}
	q.Set("envelope_types", "LOG")
	q.Set("limit", strconv.Itoa(maxLines))
	_, err := c.Do(ctx, Call{Method: http.MethodGet, URL: base + "/api/v1/read/" + url.PathEscape(app), Query: q,
		Into: &answer})
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, e := range answer.Envelopes.Batch {
		if l, ok := e.line(); ok {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// RecentLogs returns the newest lines, oldest first.
func (c *Client) RecentLogs(ctx context.Context, base, app string) ([]Line, error) {
	lines, err := c.readLog(ctx, base, app, url.Values{"descending": {"true"},
		"start_time": {strconv.FormatInt(-1<<62, 10)}})
	slices.Reverse(lines)
	return lines, err
}

// LogsSince calls line for all lines since a time, oldest first.
func (c *Client) LogsSince(ctx context.Context, base, app string, since time.Time, line func(Line)) error {
	seen := map[uint64]bool{} // lines at the last timestamp, from which the next page is read
	for {
		lines, err := c.readLog(ctx, base, app, url.Values{"start_time": {strconv.FormatInt(since.UnixNano(), 10)}})
		if err != nil {
			return err
		}
		fresh := 0
		for _, l := range lines {
			if seen[l.key()] {
				continue
			}
			if !l.Time.Equal(since) {
				clear(seen)
			}
			since = l.Time
			seen[l.key()] = true
			fresh++
			line(l)
		}
		switch {
		case len(lines) < maxLines:
			return nil
		case fresh == 0: // more lines with one timestamp than fit: the rest cannot be read
			since = since.Add(1)
		}
	}
}

// A Tail follows the log of an app from the given time until ctx is done.
type Tail func(ctx context.Context, app string, since time.Time, line func(Line)) error

// late is the maximum delay of a line that is still shown.
const late = time.Second

// The polling intervals of a tail: short after new lines, longer without.
const (
	tailFirst = 25 * time.Millisecond
	tailLast  = 250 * time.Millisecond
)

// PollTail follows a log by polling log-cache.
func (c *Client) PollTail(base string) Tail {
	return func(ctx context.Context, app string, since time.Time, show func(Line)) error {
		newest := since
		seen := map[uint64]time.Time{}
		pause, failures := tailFirst, 0
		for ctx.Err() == nil {
			from := newest.Add(-late)
			if from.Before(since) {
				from = since
			}
			lines, err := c.readLog(ctx, base, app, url.Values{"start_time": {strconv.FormatInt(from.UnixNano(), 10)}})
			if err != nil {
				if failures++; failures == 5 || Status(err) >= 400 && Status(err) < 500 {
					return err
				}
			} else {
				failures = 0
			}
			fresh := 0
			for _, l := range lines {
				key := l.key()
				if _, old := seen[key]; old {
					continue
				}
				seen[key] = l.Time
				fresh++
				show(l)
				if l.Time.After(newest) {
					newest = l.Time
				}
			}
			for key, at := range seen {
				if at.Before(newest.Add(-late)) {
					delete(seen, key)
				}
			}
			switch {
			case len(lines) == maxLines:
				newest = lines[len(lines)-1].Time.Add(late) // too many lines a second: only the newest are shown
				continue
			case fresh > 0:
				pause = tailFirst
			default:
				pause = min(tailLast, pause*3/2)
			}
			_ = wait(ctx, pause) // the loop checks ctx
		}
		return nil
	}
}

func (l Line) key() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strconv.FormatInt(l.Time.UnixNano(), 36) + "\x00" + l.Source + "\x00" + l.Instance +
		"\x00" + l.Text))
	return h.Sum64()
}
