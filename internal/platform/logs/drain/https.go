package drain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"ingot/internal/base/safedial"
)

const (
	requestTimeout = 30 * time.Second
	// maxBody limits the messages in one request, except for a single longer one.
	maxBody = 256 << 10
)

// poster sends messages as request bodies.
type poster struct {
	client *http.Client
	url    string
	batch  bool
	done   uint64
}

func newPoster(t *target, g safedial.Guard) sender {
	return &poster{url: t.url, batch: t.scheme == schemeBatch, client: &http.Client{
		Timeout: requestTimeout,
		// No proxy: it would connect to addresses that the guard does not see.
		Transport: &http.Transport{
			DialContext: newDialer(g).DialContext, TLSClientConfig: t.tls, TLSHandshakeTimeout: dialTimeout,
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (p *poster) send(ctx context.Context, messages []message) error {
	for len(messages) > 0 {
		n := 1
		body := messages[0].text
		if p.batch {
			body = slices.Clone(body)
			for ; n < len(messages) && len(body)+len(messages[n].text) <= maxBody; n++ {
				body = append(body, messages[n].text...)
			}
		}
		last := messages[n-1].number
		if err := p.post(ctx, body); err != nil {
			var refused *refusedError
			if errors.As(err, &refused) {
				refused.last, refused.lines = last, uint64(n)
			}
			return err
		}
		p.done = last
		messages = messages[n:]
	}
	return nil
}

func (p *poster) post(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("its URL cannot be used") // the error repeats the URL
	}
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	r.Header.Set("User-Agent", "ingot")
	answer, err := p.client.Do(r)
	if err != nil {
		// Keep the URL out of the message, because it may hold secrets.
		if inside := (*url.Error)(nil); errors.As(err, &inside) {
			err = inside.Err
		}
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection can be reused
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		return &refusedError{reason: "it answered " + answer.Status}
	default:
		return fmt.Errorf("it answered %s", answer.Status)
	}
}

func (p *poster) taken(time.Time) uint64      { return p.done }
func (p *poster) finish(time.Duration) uint64 { return p.done }
func (p *poster) broken() <-chan struct{}     { return nil }
func (p *poster) reason() error               { return nil }
func (p *poster) close()                      { p.client.CloseIdleConnections() }
