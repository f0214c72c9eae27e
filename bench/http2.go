package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

var http2Section = Section{
	Name: "http2",
	About: "requests with HTTP/2 and calls of gRPC to an app, compared with nginx and a stock httputil.ReverseProxy " +
		"with the same certificate",
	Run: measureHTTP2,
}

const (
	h2StockGoal = 1.5 // share of the stock proxy's rate
	h2NginxGoal = 0.9 // share of nginx's rate

	http2Host = "http2.apps.localhost" // the app's default route
	grpcHost  = "grpc.apps.localhost"

	h2Connections = 8
	h2Streams     = 8 // at a time, of each connection
)

func measureHTTP2(ctx context.Context, r *Report) (err error) {
	rounds, d := 6, 2*time.Second
	if r.Short {
		rounds, d = 1, time.Second
	}
	program, err := r.demoApp(ctx)
	if err != nil {
		return err
	}
	bits, err := newUpload(program, "http2")
	if err != nil {
		return err
	}
	cert, err := newCertificate(r.Scratch, "*.apps.localhost")
	if err != nil {
		return err
	}
	cert.client.NextProtos, cert.client.ServerName = []string{"h2"}, http2Host
	listen, err := freePort(ctx)
	if err != nil {
		return err
	}
	p, err := r.StartPlatform(ctx, "--tls-listen", listen, "--tls-cert", cert.cert, "--tls-key", cert.key, "--plain-http")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	p.Memory = "512M"
	app, err := p.Push(ctx, "http2", bits)
	defer func() { err = errors.Join(err, p.Remove(ctx, app)) }()
	if err != nil {
		return err
	}
	direct, err := p.address(ctx, app)
	if err != nil {
		return err
	}
	// gRPC needs HTTP/2 to the app, too.
	err = p.applyManifest(ctx, "applications:\n- name: http2\n  routes:\n  - route: "+grpcHost+"\n    protocol: http2\n")
	if err != nil {
		return err
	}
	peers, err := r.startHTTP2Peers(ctx, cert, direct)
	defer func() {
		for _, one := range peers {
			err = errors.Join(err, one.stop())
		}
	}()
	if err != nil {
		return err
	}
	all := append([]*peer{{name: "ingot", addr: listen, pid: p.PID, tls: cert.client}}, peers...)
	if err := compareHTTP2(ctx, r, rounds, d, all); err != nil {
		return err
	}
	p.noteEngine(r)
	if r.ProfileDir != "" {
		for _, kind := range http2Kinds {
			err := r.hotSpots(ctx, p.Server, kind.file, int(d.Seconds()), func() error {
				_, err := streams(ctx, all[0], d, kind)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	r.Note("the best of %d rounds of %s each, in turn; %d connections with TLS and HTTP/2, each with %d requests at a "+
		"time. All speak HTTP/1.1 to the app for requests and HTTP/2 for calls of gRPC. The load generator is the client "+
		"of Go's standard library, and shares the %d processors with all of them.", rounds, d,
		h2Connections, h2Streams, runtime.NumCPU())
	return nil
}

// startHTTP2Peers starts the proxies that are installed, with this certificate.
func (r *Report) startHTTP2Peers(ctx context.Context, cert *certificate, app string) (all []*peer, err error) {
	stock := filepath.Join(r.Scratch, "stockproxy")
	if err := goBuild(ctx, moduleDir(), "-s -w", stock, "./testdata/stockproxy"); err != nil {
		return nil, err
	}
	plain := cert.client.Clone() // to see that it has started
	plain.NextProtos = []string{"http/1.1"}
	for _, kind := range []peerKind{
		{nameStock, stock, func(_, listen, app string) []string {
			return []string{listen, app, cert.cert, cert.key}
		}, plain},
		{nameNginx, "nginx", cert.nginxHTTP2, plain},
	} {
		one, err := r.startPeer(ctx, kind, app, http2Host)
		if one != nil {
			one.tls = cert.client
			all = append(all, one)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// http2Kind is a way of measuring.
type http2Kind struct {
	name, file, host string
	make             func(ctx context.Context, addr string) (*http.Request, error)
}

var http2Kinds = []http2Kind{
	{"requests with HTTP/2", "http2", http2Host, func(ctx context.Context, addr string) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, "https://"+addr+"/", nil)
	}},
	{"calls of gRPC", "grpc", grpcHost, func(ctx context.Context, addr string) (*http.Request, error) {
		message := append([]byte{0, 0, 0, 0, 16}, make([]byte, 16)...)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+"/bench.Echo/Call",
			bytes.NewReader(message))
		if err == nil {
			req.Header.Set("Content-Type", "application/grpc")
			req.Header.Set("Te", "trailers")
		}
		return req, err
	}},
}

// compareHTTP2 measures all peers in each way.
func compareHTTP2(ctx context.Context, r *Report, rounds int, d time.Duration, all []*peer) error {
	for _, kind := range http2Kinds {
		var contenders []Contender
		for _, one := range all {
			contenders = append(contenders, func(ctx context.Context) (Result, error) {
				got, err := streams(ctx, one, d, kind)
				if err != nil {
					err = fmt.Errorf("%s, %s: %w", one.name, kind.name, err)
				}
				return got, err
			})
		}
		best, err := bestOf(ctx, rounds, contenders...)
		if err != nil {
			return err
		}
		for i, one := range all[1:] {
			goal := ShareOf(h2NginxGoal)
			if one.name == nameStock {
				goal = ShareOf(h2StockGoal)
			}
			r.Add(besides(kind.name, best[0], one.name, best[i+1], goal))
		}
	}
	return nil
}

// streams makes requests over several connections of HTTP/2, on each several at a time.
func streams(ctx context.Context, one *peer, d time.Duration, kind http2Kind) (result Result, err error) {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	latencies := make([][]time.Duration, h2Connections*h2Streams)
	errs := make([]error, len(latencies))
	before, own := serverTime(one.pid), processorTime(selfPID)
	began := time.Now()
	deadline := began.Add(d)
	var all sync.WaitGroup
	transports := make([]*http.Transport, h2Connections)
	defer func() {
		for _, t := range transports {
			t.CloseIdleConnections()
		}
	}()
	for i := range transports {
		config := one.tls.Clone()
		config.ServerName = kind.host
		t := &http.Transport{TLSClientConfig: config, Protocols: &protocols, DisableCompression: true,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}
		transports[i] = t
		for j := range h2Streams {
			at := i*h2Streams + j
			all.Go(func() {
				for last := time.Now(); last.Before(deadline) && errs[at] == nil; {
					req, err := kind.make(ctx, one.addr)
					if err == nil {
						req.Host = kind.host
						err = answered(t, req)
					}
					now := time.Now()
					latencies[at], errs[at] = append(latencies[at], now.Sub(last)), err
					last = now
				}
			})
		}
	}
	all.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return result, err
	}
	result.Latencies = slices.Concat(latencies...)
	slices.Sort(result.Latencies)
	n := time.Duration(len(result.Latencies))
	result.PerSecond = float64(n) / took.Seconds()
	result.Server, result.Load = (serverTime(one.pid)-before)/n, (processorTime(selfPID)-own)/n
	return result, nil
}

// answered makes a request, and fails if it does not succeed over HTTP/2.
func answered(t *http.Transport, req *http.Request) error {
	res, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	status := res.Trailer.Get("Grpc-Status") // after the body
	switch {
	case res.StatusCode != http.StatusOK || res.ProtoMajor != 2:
		return fmt.Errorf("%s %s", res.Proto, res.Status)
	case req.Method == http.MethodPost && status != "0":
		return fmt.Errorf("the call ended with status %q", status)
	}
	return nil
}

// nginxHTTP2 is nginxConfig with HTTP/2, also to the app for calls of gRPC.
func (c *certificate) nginxHTTP2(dir, listen, app string) []string {
	args := c.nginxConfig(dir, listen, app)
	if len(args) == 0 {
		return nil
	}
	file := args[len(args)-1]
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	// Upstreams keep connections of one protocol.
	both := strings.NewReplacer("upstream app {", `upstream calls {
    server `+app+`;
    keepalive 64;
    keepalive_requests 100000000;
  }
  upstream app {`, "listen "+listen+" ssl backlog=4096;", "listen "+listen+` ssl http2 backlog=4096;
    location /bench.Echo/ {
      grpc_pass grpc://calls;
      grpc_set_header Host $http_host;
    }`).Replace(string(text))
	if os.WriteFile(file, []byte(both), 0o600) != nil {
		return nil
	}
	return args
}
