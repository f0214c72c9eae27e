package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
)

// TestUpgradeTLS replaces a server that terminates TLS and has its tables in PostgreSQL,
// while clients send requests on new and on kept connections, over HTTP/1.1 and HTTP/2.
func TestUpgradeTLS(t *testing.T) {
	t.Parallel()
	authority, dir, host := testkit.NewAuthority(t), t.TempDir(), loopback()
	cert, key := authority.Write(dir, "example.test", "*.example.test")
	s := &site{start(t, options{DB: dbtest.URL(t, db.Postgres), Args: []string{
		"--domain", "example.test", "--tls-listen", host + ":0", "--tls-cert", cert, "--tls-key", key, "--tcp-ports", "none",
	}})}
	_, ports := s.public(t)
	at := fmt.Sprintf("%s:%d", host, ports.TLS)
	other, _ := otherVersion(t)

	var asked atomic.Int64
	var mu sync.Mutex
	var failed []string
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for _, kind := range []struct{ fresh, http2 bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
		transport := &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", at)
			},
			TLSClientConfig: &tls.Config{RootCAs: authority.Pool()}, DisableKeepAlives: kind.fresh,
			ForceAttemptHTTP2: kind.http2,
		}
		t.Cleanup(transport.CloseIdleConnections)
		clients.Go(func() {
			for ctx.Err() == nil {
				if err := askInfo(ctx, transport); err != nil && ctx.Err() == nil {
					mu.Lock()
					failed = append(failed, fmt.Sprintf("%+v: %v", kind, err))
					mu.Unlock()
				}
				asked.Add(1)
			}
		})
	}
	more := func(n int64) {
		t.Helper()
		to := asked.Load() + n
		testkit.Eventually(t, fmt.Sprintf("%d more requests", n), func() bool { return asked.Load() >= to })
	}
	more(100)
	for _, path := range []string{other, program(t)} {
		before := s.replace(t, path)
		more(100)
		s.client.CloseIdleConnections()
		if code := before.wait(t); code != 0 {
			t.Fatalf("the process before ended with code %d, want 0\n%s", code, before.Stderr)
		}
	}
	more(100)
	stop()
	clients.Wait()
	for _, text := range failed[:min(len(failed), 5)] {
		t.Error(text)
	}
	t.Logf("%d of %d requests failed", len(failed), asked.Load())
	s.Stop(t)
}

// askInfo sends a request over TLS and reads the response.
func askInfo(ctx context.Context, transport http.RoundTripper) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.test/v3/info", nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", answer.Status)
	}
	return nil
}
