package outbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/notify"
)

// Request is a call of any form. Header has the type of the body.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        []byte
	At          time.Time
}

// ErrUnsent means that a call failed before the receiver got anything of it.
var ErrUnsent = errors.New("not sent")

// Do makes one call over TLS, and returns the beginning of the answer's body too, which Answer.Text does not have.
// Its errors contain neither address nor header.
func (c *Client) Do(ctx context.Context, call Request) (Answer, []byte, error) {
	if why := notify.CheckProviderURL(call.URL); why != "" {
		return Answer{}, nil, fmt.Errorf("%w: the address %s", ErrUnsent, why)
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	r, err := http.NewRequestWithContext(ctx, call.Method, call.URL, bytes.NewReader(call.Body))
	if err != nil {
		return Answer{}, nil, fmt.Errorf("%w: the request is not valid", ErrUnsent)
	}
	for name, values := range call.Header {
		r.Header[name] = values
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", userAgent)
	}
	answer, body, err := c.do(r, call.At)
	if err != nil && !sent.Load() {
		err = fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	return answer, body, err
}

// do makes a call, and returns the answer without its text, and the beginning of its body.
func (c *Client) do(r *http.Request, at time.Time) (Answer, []byte, error) {
	answer, err := c.client.Do(r)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return Answer{}, nil, fmt.Errorf("call: %w", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswer)) // a part is enough to show
	if err != nil {
		return Answer{}, nil, fmt.Errorf("read the response: %w", err)
	}
	later := retryAfter(strings.TrimSpace(answer.Header.Get("Retry-After")), at)
	return Answer{Status: answer.StatusCode, RetryAfter: later}, body, nil
}
