//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A balancer distributes requests to the servers that are ready, one after another.
// Like those of clusters it learns from the API which Pods exist, calls /readyz of
// each, and sends a request to another server if a connection is refused.
type balancer struct {
	address   string
	pods      func(context.Context) (map[string]string, error) // addresses by name
	transport *http.Transport

	mu      sync.Mutex
	ready   []backend
	next    int
	refused map[string]time.Time // by Pod, until it answers again
}

type backend struct{ pod, ip string }

// caller sends the requests of tests, which limit them; some are streams without end.
var caller = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}}

const (
	balancerInterval = 500 * time.Millisecond
	// hopTimeout limits connections to servers and checks of them.
	hopTimeout = time.Second
)

func newBalancer(t *testing.T, address string, pods func(context.Context) (map[string]string, error)) *balancer {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{
		address: listener.Addr().String(), pods: pods, refused: map[string]time.Time{},
		transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: hopTimeout}).DialContext,
			MaxIdleConnsPerHost: 100,
		},
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			r.Out.Host = r.In.Host
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "server"
		},
		Transport: b, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "balancer: "+err.Error(), http.StatusBadGateway)
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(listener) }) // until Close
	work.Go(func() { b.watch(ctx) })
	t.Cleanup(func() {
		cancel()
		server.Close()
		work.Wait()
		b.transport.CloseIdleConnections()
	})
	return b
}

// watch keeps the list of servers that are ready.
func (b *balancer) watch(ctx context.Context) {
	tick := time.NewTicker(balancerInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		b.check(ctx)
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (b *balancer) check(ctx context.Context) {
	pods, err := b.pods(ctx)
	if err != nil {
		return // as before
	}
	began := time.Now()
	names := slices.Sorted(maps.Keys(pods))
	answers := make([]bool, len(names))
	var work sync.WaitGroup
	for i, name := range names {
		work.Go(func() {
			limited, cancel := context.WithTimeout(ctx, hopTimeout)
			defer cancel()
			answers[i] = request(limited, http.MethodGet, caller, "http://"+net.JoinHostPort(pods[name], "8082")+
				"/readyz", nil) == nil
		})
	}
	work.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = b.ready[:0]
	for i, name := range names {
		if answers[i] && !b.refused[name].After(began) {
			b.ready = append(b.ready, backend{name, pods[name]})
		}
	}
}

// names returns the Pods that get requests.
func (b *balancer) names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, one := range b.ready {
		all = append(all, one.pod)
	}
	return all
}

func (b *balancer) pick(tried []string) (backend, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for range b.ready {
		b.next++
		if one := b.ready[b.next%len(b.ready)]; !slices.Contains(tried, one.pod) {
			return one, true
		}
	}
	return backend{}, false
}

// drop takes a server that refuses connections off the list until it answers.
func (b *balancer) drop(pod string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused[pod] = time.Now()
	b.ready = slices.DeleteFunc(b.ready, func(one backend) bool { return one.pod == pod })
}

// RoundTrip implements http.RoundTripper.
func (b *balancer) RoundTrip(r *http.Request) (*http.Response, error) {
	var tried []string
	for {
		one, ok := b.pick(tried)
		if !ok {
			return nil, fmt.Errorf("no server is ready; %q refused", tried)
		}
		out := r.Clone(r.Context())
		out.URL.Host = net.JoinHostPort(one.ip, "8080")
		response, err := b.transport.RoundTrip(out)
		var failed *net.OpError
		if err != nil && errors.As(err, &failed) && failed.Op == "dial" {
			b.drop(one.pod)
			tried = append(tried, one.pod)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("by %s: %w", one.pod, err)
		}
		response.Header.Set("X-Server", one.pod)
		return response, nil
	}
}

// A load sends requests to an app at a constant rate.
type load struct {
	began  time.Time
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	sent     int
	failures []failure
}

type failure struct {
	at  time.Time // when the request was sent
	why string
}

// newLoad sends that many requests a second until stop.
func newLoad(t *testing.T, url, host string, rate int) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{began: time.Now(), cancel: cancel}
	t.Cleanup(func() { l.stop() })
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: rate}}
	l.work.Go(func() {
		defer client.CloseIdleConnections()
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		var requests sync.WaitGroup
		defer requests.Wait()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			requests.Go(func() { l.send(client, url, host) })
		}
	})
	return l
}

func (l *load) send(client *http.Client, url, host string) {
	at := time.Now()
	why := visit(client, url, host)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if why != "" {
		l.failures = append(l.failures, failure{at, why})
	}
}

// visit sends a request to an app and returns why it failed, or "".
func visit(client *http.Client, url, host string) string {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err.Error()
	}
	r.Host = host
	response, err := client.Do(r)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), "probe ") {
		return fmt.Sprintf("%s through %s: %.200s (%v)", response.Status, response.Header.Get("X-Server"), body, err)
	}
	return ""
}

// stop ends the load and returns the number of requests and those that failed.
func (l *load) stop() (sent int, failures []failure) {
	l.cancel()
	l.work.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.SortFunc(l.failures, func(a, b failure) int { return a.at.Compare(b.at) })
	return l.sent, l.failures
}

// none stops the load, of which no request may have failed.
func (l *load) none(t *testing.T) (sent int) {
	t.Helper()
	sent, failures := l.stop()
	for i, f := range failures {
		if i == 5 {
			break
		}
		t.Errorf("after %v: %s", f.at.Sub(l.began).Round(time.Millisecond), f.why)
	}
	if len(failures) > 0 {
		t.Errorf("%d of %d requests failed, want none", len(failures), sent)
	}
	return sent
}
