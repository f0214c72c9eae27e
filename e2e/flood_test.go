package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestLoginFlood sends wrong logins with random names from some addresses. Right
// ones from others succeed, and those of a pipeline are never rejected.
func TestLoginFlood(t *testing.T) {
	t.Parallel()
	loginFlood(t, 3*time.Second)
}

// TestLoginFloodSoak does the same for longer.
func TestLoginFloodSoak(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("INGOT_SOAK is not set")
	}
	loginFlood(t, 10*time.Minute)
}

func loginFlood(t *testing.T, long time.Duration) {
	s := start(t, options{})
	admin := s.secret(t, "admin-password")
	pipeline := loginFrom(t, s, "127.0.7.1")
	if status, body := pipeline("admin", admin); status != http.StatusOK {
		t.Fatalf("first login answers %d, want 200: %s", status, body)
	}
	ctx, stop := context.WithTimeout(t.Context(), long)
	defer stop()
	var all sync.WaitGroup
	var wrong, refused atomic.Int64
	for i := range 80 {
		attack := loginFrom(t, s, fmt.Sprint("127.0.8.", i%4+1))
		all.Go(func() {
			for n := 0; n == 0 || ctx.Err() == nil; n++ {
				name := fmt.Sprintf("random-%d-%d", i, n)
				if n%8 == 7 {
					name = "admin"
				}
				status, body := attack(name, "wrong")
				wrong.Add(1)
				switch status {
				case http.StatusUnauthorized:
				case http.StatusTooManyRequests:
					refused.Add(1)
					select {
					case <-ctx.Done():
					case <-time.After(100 * time.Millisecond):
					}
				default:
					t.Errorf("a wrong login: %d %s", status, body)
				}
			}
		})
	}
	var right atomic.Int64
	all.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if status, body := pipeline("admin", admin); status != http.StatusOK {
				t.Errorf("the pipeline was refused: %d %s", status, body)
			}
			right.Add(1)
		}
	})
	// Each from a new address.
	all.Go(func() {
		for n := 0; n == 0 || ctx.Err() == nil && n < 250; n++ {
			if status, body := loginFrom(t, s, fmt.Sprint("127.0.9.", n+1))("admin", admin); status != http.StatusOK {
				t.Errorf("login %d from a new address: %d %s", n, status, body)
			}
			right.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
	all.Wait()
	t.Logf("%d wrong logins, %d of them refused at once; %d right ones", wrong.Load(), refused.Load(), right.Load())
	if wrong.Load() < 80 || right.Load() == 0 {
		t.Error("there was no flood, or nothing else")
	}
}

// loginFrom returns a function that requests a token, from its own address.
func loginFrom(t *testing.T, s *Server, address string) func(user, password string) (int, string) {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: patience}
	return func(user, password string) (int, string) {
		form := url.Values{"grant_type": {"password"}, "username": {user}, "password": {password}}
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, s.Auth+"/oauth/token",
			strings.NewReader(form.Encode()))
		if err != nil {
			return 0, err.Error()
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.SetBasicAuth("cf", "")
		res, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return 0, err.Error()
		}
		return res.StatusCode, string(body)
	}
}
