package tracing

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
)

// Options configure a Tracer.
type Options struct {
	// Endpoint is the URL of the collector, such as http://127.0.0.1:4318; see Endpoint.
	Endpoint string
	// Headers are sent with every request; they may contain a secret.
	Headers map[string]string
	// Sampling is the share of new traces that are recorded, from 0 to 1. Traces that a
	// client began are recorded if it says so.
	Sampling float64
	// Resource describes the server.
	Resource []Attr
	// TLS is for connections to the collector; nil means the system's certificates.
	TLS  *tls.Config
	HTTP *http.Client // nil means one with the defaults
	Log  *slog.Logger
	// Delay is how long a span waits for others; 1 s by default.
	Delay time.Duration
}

const (
	queueSize = 4096 // spans that wait
	batchSize = 512  // spans in a request
	attempts  = 4    // of a request
	// sendTimeout limits a request, stopTimeout the last one of all.
	sendTimeout = 10 * time.Second
	stopTimeout = 3 * time.Second
	longestWait = 30 * time.Second
)

// Tracer records spans. It is a background.Service; a nil *Tracer records nothing.
type Tracer struct {
	background.Part
	o         Options
	url       string
	threshold uint64 // traces whose last 56 bits are at least this are recorded
	wake      chan struct{}

	mu    sync.Mutex
	queue []Finished

	sent, dropped, failed atomic.Int64
	failing               bool // the last request failed; only the sender uses it
}

var _ background.Service = (*Tracer)(nil)

// New returns a Tracer that is not running.
func New(o Options) (*Tracer, error) {
	at, err := Endpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Sampling < 0 || o.Sampling > 1 || math.IsNaN(o.Sampling) {
		return nil, fmt.Errorf("the sampling ratio %v is not between 0 and 1", o.Sampling)
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: o.TLS,
			MaxIdleConns: 1, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Delay == 0 {
		o.Delay = time.Second
	}
	return &Tracer{o: o, url: at, threshold: uint64((1 - o.Sampling) * (1 << 56)), wake: make(chan struct{}, 1)}, nil
}

// Endpoint returns the URL for traces of a collector's URL: with /v1/traces, unless it
// has that already, as for OTEL_EXPORTER_OTLP_ENDPOINT. Its errors do not contain
// the URL, which may have a password.
func Endpoint(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", errors.New("it must be the URL of a collector, for example http://127.0.0.1:4318")
	}
	const path = "/v1/traces"
	if !strings.HasSuffix(u.Path, path) {
		u.Path = strings.TrimRight(u.Path, "/") + path
	}
	return u.String(), nil
}

// ParseHeaders parses a list of headers, KEY=VALUE,KEY=VALUE with percent-encoded values, as
// for OTEL_EXPORTER_OTLP_HEADERS. Its errors do not contain the values.
func ParseHeaders(list string) (map[string]string, error) {
	headers := map[string]string{}
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		key, value, ok := strings.Cut(one, "=")
		text, err := url.PathUnescape(strings.TrimSpace(value))
		key = strings.TrimSpace(key)
		if !ok || err != nil || key == "" || strings.ContainsAny(key, " \t:\r\n") || strings.ContainsAny(text, "\r\n\x00") {
			return nil, errors.New("it must be a list KEY=VALUE,KEY=VALUE, with special characters of values percent-encoded")
		}
		headers[key] = text
	}
	return headers, nil
}

// Samples reports whether a trace that begins here is recorded. It depends on the id only,
// so that all servers with the same ratio agree.
func (t *Tracer) Samples(id TraceID) bool {
	if t == nil {
		return false
	}
	var random uint64
	for _, b := range id[9:] {
		random = random<<8 | uint64(b)
	}
	return random >= t.threshold
}

// Record adds a span to the queue. If that is full, the span is dropped and counted.
func (t *Tracer) Record(s Finished) {
	if t == nil {
		return
	}
	t.mu.Lock()
	n := len(t.queue)
	if n < queueSize {
		t.queue = append(t.queue, s)
	}
	t.mu.Unlock()
	switch {
	case n >= queueSize:
		t.dropped.Add(1)
	case n == 0, n == batchSize-1:
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// Start starts sending.
func (t *Tracer) Start(ctx context.Context) error {
	return t.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() { t.run(work) })
		return nil
	})
}

// Stop sends the spans that wait, as far as that takes a moment, and stops.
func (t *Tracer) Stop() { t.Halt(nil) }

func (t *Tracer) run(ctx context.Context) {
	defer t.o.HTTP.CloseIdleConnections()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			t.flush(ctx)
			return
		case <-t.wake:
		}
		timer.Reset(t.o.Delay)
		for waiting := true; waiting && t.waiting() < batchSize; {
			select {
			case <-ctx.Done():
				waiting = false
			case <-timer.C:
				waiting = false
			case <-t.wake:
			}
		}
		for ctx.Err() == nil {
			batch := t.take()
			if len(batch) == 0 {
				break
			}
			t.send(ctx, batch)
		}
	}
}

func (t *Tracer) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue)
}

// take removes the first spans from the queue. It releases the memory of an empty queue.
func (t *Tracer) take() []Finished {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) <= batchSize {
		all := t.queue
		t.queue = nil
		return all
	}
	batch := append([]Finished(nil), t.queue[:batchSize]...)
	rest := copy(t.queue, t.queue[batchSize:])
	clear(t.queue[rest:])
	t.queue = t.queue[:rest]
	return batch
}

// flush sends what waits at the end, once.
func (t *Tracer) flush(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	for batch := t.take(); len(batch) > 0; batch = t.take() {
		_, err := t.post(limited, encode(t.o.Resource, batch), len(batch))
		t.count(ctx, len(batch), err)
	}
}

// send sends a batch, and repeats that after failures that may pass. Meanwhile the queue
// fills.
func (t *Tracer) send(ctx context.Context, batch []Finished) {
	body := encode(t.o.Resource, batch)
	pause := time.Second
	for attempt := 1; ; attempt++ {
		// A request that has begun may be completed after Stop.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
		stop := background.OnDone(ctx, "last spans", func() { background.AfterFunc("last spans", stopTimeout, cancel) })
		wait, err := t.post(limited, body, len(batch))
		stop()
		cancel()
		var again *temporaryError
		if err == nil || attempt == attempts || ctx.Err() != nil || !errors.As(err, &again) {
			t.count(ctx, len(batch), err)
			return
		}
		t.report(ctx, err)
		timer := time.NewTimer(min(max(wait, pause), longestWait))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
		pause *= 2
	}
}

func (t *Tracer) count(ctx context.Context, n int, err error) {
	if err != nil {
		t.failed.Add(int64(n))
		t.report(ctx, err)
		return
	}
	if t.failing {
		t.failing = false
		t.o.Log.InfoContext(ctx, "the collector of traces accepts spans again")
	}
}

// report logs the first of several failures.
func (t *Tracer) report(ctx context.Context, err error) {
	if !t.failing {
		t.failing = true
		t.o.Log.WarnContext(ctx, "spans could not be sent to the collector of traces; they are dropped when too many wait",
			"error", err)
	}
}

// temporaryError is a failure after which a request is repeated.
type temporaryError struct{ err error }

func (e *temporaryError) Error() string { return e.err.Error() }
func (e *temporaryError) Unwrap() error { return e.err }

// post makes one request. wait is what the collector asked for before the next one.
func (t *Tracer) post(ctx context.Context, body []byte, spans int) (wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "ingot")
	for name, value := range t.o.Headers {
		r.Header.Set(name, value)
	}
	answer, err := t.o.HTTP.Do(r)
	if err != nil {
		var failed *url.Error // it contains the URL
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return 0, &temporaryError{err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10)) // part of a message
	if err != nil {
		return 0, &temporaryError{err}
	}
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return time.Duration(min(max(seconds, 0), 3600)) * time.Second,
			&temporaryError{fmt.Errorf("the collector answered %s", answer.Status)}
	}
	if answer.StatusCode/100 != 2 {
		return 0, fmt.Errorf("the collector answered %s", answer.Status)
	}
	refused := min(rejected(text), spans)
	t.failed.Add(int64(refused))
	t.sent.Add(int64(spans - refused))
	return 0, nil
}

var (
	descSpans = prometheus.NewDesc("ingot_trace_spans_total",
		"Recorded spans by result: sent, failed (the collector did not accept them), dropped (the queue was full).",
		[]string{"result"}, nil)
	descQueue = prometheus.NewDesc("ingot_trace_queue_spans", "Spans that wait to be sent.", nil, nil)
)

var _ prometheus.Collector = (*Tracer)(nil)

// Describe implements prometheus.Collector.
func (t *Tracer) Describe(to chan<- *prometheus.Desc) {
	to <- descSpans
	to <- descQueue
}

// Collect implements prometheus.Collector.
func (t *Tracer) Collect(to chan<- prometheus.Metric) {
	for _, one := range []struct {
		n    *atomic.Int64
		name string
	}{{&t.sent, "sent"}, {&t.failed, "failed"}, {&t.dropped, "dropped"}} {
		to <- prometheus.MustNewConstMetric(descSpans, prometheus.CounterValue, float64(one.n.Load()), one.name)
	}
	to <- prometheus.MustNewConstMetric(descQueue, prometheus.GaugeValue, float64(t.waiting()))
}
