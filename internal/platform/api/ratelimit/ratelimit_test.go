package ratelimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/platform/api/ratelimit"
)

// ask makes a request and returns its headers.
func ask(t *testing.T, l *ratelimit.Limiter, method, path string, claims *token.Claims) (http.Header, func(), error) {
	t.Helper()
	h := http.Header{}
	leave, err := l.Enter(h, httptest.NewRequest(method, path, nil), claims)
	return h, leave, err
}

func one(h http.Header, name string) string {
	if len(h[name]) != 1 {
		return fmt.Sprint(h[name])
	}
	return h[name][0]
}

// The count starts again at the end of the caller's interval, which is not the same for
// all callers.
func TestIntervals(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	l := ratelimit.New(ratelimit.Options{Limits: ratelimit.Limits{General: 2, Interval: time.Hour},
		Now: func() time.Time { return now }})
	ends := map[string]bool{}
	for i := range 20 {
		claims := &token.Claims{UserID: fmt.Sprint("user", i), ClientID: "cf"}
		var reset string
		for left := 1; left >= 0; left-- {
			h, _, err := ask(t, l, http.MethodGet, "/v3/apps", claims)
			reset = one(h, "X-RateLimit-Reset")
			if err != nil || one(h, "X-RateLimit-Limit") != "2" || one(h, "X-RateLimit-Remaining") != fmt.Sprint(left) {
				t.Fatalf("%s: %v %v, want %d left", claims.UserID, h, err, left)
			}
		}
		ends[reset] = true
		_, _, err := ask(t, l, http.MethodGet, "/v3/apps", claims)
		if !fault.Is(err, fault.RateLimited) {
			t.Fatalf("over the limit: %v", err)
		}
		if wait := err.(*fault.Error).RetryAfter; wait <= 0 || //nolint:errorlint,forcetypeassert // fault.Is has checked it
			wait > time.Hour {
			t.Errorf("wait %s", wait)
		}
	}
	if len(ends) < 10 {
		t.Errorf("20 callers have %d different ends of their intervals", len(ends))
	}
	now = now.Add(time.Hour)
	if h, _, err := ask(t, l, http.MethodGet, "/v3/apps", &token.Claims{UserID: "user0"}); err != nil ||
		one(h, "X-RateLimit-Remaining") != "1" {
		t.Errorf("after the interval: %v %v", h, err)
	}
}

// Servers divide a limit, and each estimates what is left of the whole.
func TestSeveralServers(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(ratelimit.Options{Limits: ratelimit.Limits{General: 60}, Servers: func() int { return 3 }})
	claims := &token.Claims{ClientID: "pipeline"}
	for i := range 20 {
		h, _, err := ask(t, l, http.MethodGet, "/v3/apps", claims)
		if want := fmt.Sprint((19 - i) / 2 * 6); err != nil || one(h, "X-RateLimit-Limit") != "60" ||
			one(h, "X-RateLimit-Remaining") != want {
			t.Errorf("request %d: %v %v, want %s left", i+1, h, err, want)
		}
	}
	if _, _, err := ask(t, l, http.MethodGet, "/v3/apps", claims); !fault.Is(err, fault.RateLimited) {
		t.Errorf("over this server's part: %v", err)
	}
}

// The requests of a user that wait for brokers are limited while they wait.
func TestBrokerRequests(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(ratelimit.Options{Limits: ratelimit.Limits{BrokerRequests: 2}, BrokerTimeout: 10 * time.Second})
	user := &token.Claims{UserID: "u"}
	var leave []func()
	for _, path := range []string{"/v3/service_instances", "/v3/service_credential_bindings/x"} {
		_, end, err := ask(t, l, http.MethodPost, path, user)
		if err != nil || end == nil {
			t.Fatalf("%s: %v", path, err)
		}
		leave = append(leave, end)
	}
	_, _, err := ask(t, l, http.MethodDelete, "/v3/service_route_bindings/x", user)
	if !fault.Is(err, fault.BrokerRateLimited) {
		t.Fatalf("a third request: %v", err)
	}
	if wait := err.(*fault.Error). //nolint:errorlint,forcetypeassert // fault.Is has checked it
					RetryAfter; wait < 5*time.Second || wait > 15*time.Second {
		t.Errorf("wait %s, want 5 to 15 s", wait)
	}
	for name, one := range map[string]struct {
		method, path string
		claims       *token.Claims
	}{
		"another user": {http.MethodPost, "/v3/service_instances", &token.Claims{UserID: "v"}},
		"a read":       {http.MethodGet, "/v3/service_instances", user},
		"another path": {http.MethodPost, "/v3/apps", user},
		"administrators": {http.MethodPost, "/v3/service_instances",
			&token.Claims{UserID: "u", Scope: []string{"cloud_controller.admin"}}},
	} {
		if _, _, err := ask(t, l, one.method, one.path, one.claims); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	leave[0]()
	if _, _, err := ask(t, l, http.MethodPost, "/v3/service_instances", user); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}
