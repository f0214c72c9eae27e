// Otel-relay is a sidecar that receives traces, metrics and logs of the app in
// OpenTelemetry's protocol (OTLP over HTTP), adds what the platform knows about the
// instance, and sends them to a collector. README.md lists the settings.
package main

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		r, err := configure(os.Getenv)
		if err != nil {
			return fmt.Errorf("otel-relay: %w", err)
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", r.listen)
		if err != nil {
			return fmt.Errorf("otel-relay: %w (OTEL_RELAY_LISTEN says where to listen)", err)
		}
		return r.run(ctx, l)
	})
}

// relay receives and sends.
type relay struct {
	listen     string
	attributes []attribute
	largest    int // bytes of a request of the app's, without compression
	stopAfter  time.Duration
	report     time.Duration
	queue      *queue
	senders    []*sender
	sent       *counter
}

// counter counts items by signal.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) add(signal string, items int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[signal] += items
}

func (c *counter) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := 0
	for _, n := range c.n {
		sum += n
	}
	return sum
}

func configure(getenv func(string) string) (*relay, error) {
	e := &sample.Env{Get: getenv}
	r := &relay{
		listen: e.LoopbackAddress("OTEL_RELAY_LISTEN", "127.0.0.1:4318"), largest: e.Int("OTEL_RELAY_MAX_REQUEST_BYTES",
			4<<20, 1024),
		stopAfter: e.Duration("OTEL_RELAY_STOP_TIMEOUT", 4*time.Second, 0), report: time.Minute,
		queue: newQueue(e.Int("OTEL_RELAY_QUEUE_BYTES", 8<<20, 1024)), sent: &counter{n: map[string]int{}},
	}
	l := limits{
		batch: e.Int("OTEL_RELAY_BATCH_BYTES", 512<<10, 1), wait: e.Duration("OTEL_RELAY_BATCH_WAIT", time.Second, 0),
		firstPause: e.Duration("OTEL_RELAY_RETRY_PAUSE", time.Second, time.Millisecond), maxPause: 30 * time.Second,
		giveUp: e.Duration("OTEL_RELAY_GIVE_UP", 5*time.Minute, 0),
	}
	var err error
	if r.attributes, err = attributesOf(getenv); err != nil {
		e.Problem("VCAP_APPLICATION cannot be read: %w", err)
	}
	client, err := newClient(e.Text("OTEL_EXPORTER_OTLP_CERTIFICATE", ""))
	if err != nil {
		e.Problem("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
	}
	compression := e.OneOf("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip", "none")
	// Milliseconds, as in all programs that read this variable.
	timeout := time.Duration(e.Int("OTEL_EXPORTER_OTLP_TIMEOUT", 10000, 1)) * time.Millisecond
	base := e.Text("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	for _, signal := range slices.Sorted(maps.Keys(names)) {
		own := "OTEL_EXPORTER_OTLP_" + strings.ToUpper(signal) + "_"
		endpoint := e.Text(own+"ENDPOINT", "")
		if endpoint == "" && base != "" {
			endpoint = strings.TrimRight(base, "/") + "/v1/" + signal
		}
		if endpoint == "" {
			e.Problem("OTEL_EXPORTER_OTLP_ENDPOINT is not set: set it under env of the sidecar to the address of a collector, " +
				"for example https://otel.example.org:4318")
			break
		}
		if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			e.Problem("the endpoint %q is no address of the form https://HOST:PORT", endpoint)
		} else if u.Host == r.listen {
			e.Problem("the endpoint %q is this relay itself: set OTEL_EXPORTER_OTLP_ENDPOINT under env of the sidecar, not of "+
				"the app", endpoint)
		}
		headers := http.Header{}
		for _, list := range []string{getenv("OTEL_EXPORTER_OTLP_HEADERS"), getenv(own + "HEADERS")} {
			for key, value := range pairs(list) {
				headers.Set(key, value)
			}
		}
		r.senders = append(r.senders, &sender{
			signal: signal, endpoint: endpoint, headers: headers, gzip: compression == "gzip", timeout: timeout, client: client,
			queue: r.queue, limits: l, sent: r.sent,
		})
	}
	return r, e.Err()
}

// newClient returns a client that trusts the authorities of a file, if there is one.
func newClient(file string) (*http.Client, error) {
	transport := sample.NewTransport(0)
	transport.Proxy = http.ProxyFromEnvironment
	transport.ForceAttemptHTTP2 = true
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s contains no certificate", file)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	// Headers with a token must not follow to another address.
	return &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// run receives and sends until ctx is done, and then sends what is left.
func (r *relay) run(ctx context.Context, l net.Listener) error {
	slog.Info("relay", "to", r.senders[len(r.senders)-1].endpoint, "attributes", len(r.attributes))
	var all sync.WaitGroup
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	for _, s := range r.senders {
		all.Go(func() { s.work(work, last) })
	}
	all.Go(func() { r.reports(work) })
	err := sample.ServeWith(ctx, sample.NewServer(r.handler()), l)
	stop()
	defer time.AfterFunc(r.stopAfter, end).Stop()
	all.Wait()
	for _, s := range r.senders {
		all.Go(func() { s.flush(last) })
	}
	all.Wait()
	r.reportDropped()
	slog.Info("stopped", "items sent", r.sent.total())
	return err
}

// reports says regularly what was dropped.
func (r *relay) reports(ctx context.Context) {
	tick := time.NewTicker(r.report)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.reportDropped()
		case <-ctx.Done():
			return
		}
	}
}

func (r *relay) reportDropped() {
	dropped := r.queue.takeDropped()
	for _, signal := range slices.Sorted(maps.Keys(dropped)) {
		slog.Error("items were dropped: the queue was full, or the collector did not accept them", "signal", signal, "items",
			dropped[signal])
	}
}

func (r *relay) handler() http.Handler {
	mux := http.NewServeMux()
	for signal := range names {
		mux.HandleFunc("POST /v1/"+signal, func(w http.ResponseWriter, q *http.Request) { r.receive(w, q, signal) })
	}
	return mux
}

// receive takes a request of the app's. It is accepted as soon as it is in the queue.
func (r *relay) receive(w http.ResponseWriter, q *http.Request, signal string) {
	kind, _, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	if err != nil || kind != contentType(true) && kind != contentType(false) {
		http.Error(w, "The Content-Type must be application/x-protobuf or application/json.", http.StatusUnsupportedMediaType)
		return
	}
	body, status, err := r.read(w, q)
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	p := part{signal: signal, json: kind == contentType(true)}
	if p.json {
		p.body, p.items, err = addJSON(signal, body, r.attributes)
	} else {
		p.body, p.items, err = addProtobuf(body, r.attributes)
	}
	if err != nil {
		http.Error(w, "The body cannot be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	if p.items > 0 {
		r.queue.put(p)
	}
	w.Header().Set("Content-Type", kind)
	if p.json {
		_, _ = io.WriteString(w, "{}") // the app may have disconnected
	}
}

// read returns the body of a request, without its compression.
func (r *relay) read(w http.ResponseWriter, q *http.Request) (body []byte, status int, err error) {
	var in io.Reader = http.MaxBytesReader(w, q.Body, int64(r.largest))
	switch q.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip":
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, http.StatusBadRequest, err
		}
		in = z
	default:
		return nil, http.StatusUnsupportedMediaType, errors.New("the Content-Encoding must be gzip, or none")
	}
	body, err = io.ReadAll(io.LimitReader(in, int64(r.largest)+1))
	var large *http.MaxBytesError
	if errors.As(err, &large) || err == nil && len(body) > r.largest {
		return nil, http.StatusRequestEntityTooLarge,
			fmt.Errorf("the body has more than %d bytes, the limit of OTEL_RELAY_MAX_REQUEST_BYTES", r.largest)
	}
	return body, http.StatusBadRequest, err
}
