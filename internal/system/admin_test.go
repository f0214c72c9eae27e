package system

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The check precedes everything else on the admin listener.
func TestAdminListenerChecksTheHost(t *testing.T) {
	t.Parallel()
	s := startSystem(t, testConfig(t))
	client := &http.Client{Timeout: time.Minute}
	t.Cleanup(client.CloseIdleConnections)
	for host, want := range map[string]int{"": 200, "rebound.example": 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Endpoints().Admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("host %q: %d, want %d", host, res.StatusCode, want)
		}
	}
}

// An admin address that other machines can connect to needs a token, for everything but
// health checks, which then give no reasons.
func TestAdminListenerOfOtherMachines(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-the-operator"
	whole, alone := testConfig(t), standaloneConfig(t, "http://127.0.0.1:1")
	whole.AdminListen, alone.AdminListen = "0.0.0.0:0", "0.0.0.0:0"
	const want = "--admin-listen: 0.0.0.0:0 is not a loopback address, so other machines can read metrics, profiles and " +
		"mail: set a token with --admin-token-file or INGOT_ADMIN_TOKEN, or listen on 127.0.0.1"
	for name, err := range map[string]error{"whole": whole.Validate(), "alone": alone.Validate()} {
		if err == nil || err.Error() != want {
			t.Errorf("%s without a token: %v, want %s", name, err, want)
		}
	}
	whole.AdminToken = "short"
	if err := whole.Validate(); err == nil || !strings.Contains(err.Error(), "at least 16") {
		t.Errorf("with a short token: %v", err)
	}
	whole.AdminToken, alone.AdminToken = token, token
	s, n := startSystem(t, whole), newStandalone(t, alone)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Minute}
	t.Cleanup(client.CloseIdleConnections)
	get := func(url, bearer, password string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		if password != "" {
			req.SetBasicAuth("anyone", password)
		}
		req.Host = "metrics.example" // the token decides, not the name
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for name, admin := range map[string]string{"whole": s.Endpoints().Admin, "alone": n.Endpoints().Admin} {
		for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine", mailboxPath, "/else"} {
			found := 200
			if path == "/else" {
				found = 404
			}
			for _, one := range []struct {
				bearer, password string
				want             int
			}{{"", "", 401}, {"wrong", "", 401}, {"", "wrong", 401}, {token, "", found}, {"", token, found},
				{token + "x", "", 401}} {
				if got := get(admin+path, one.bearer, one.password); got != one.want {
					t.Errorf("%s %s with %q and %q: %d, want %d", name, path, one.bearer, one.password, got, one.want)
				}
			}
		}
		if got := get(admin+"/healthz", "", ""); got != 200 {
			t.Errorf("%s /healthz without a token: %d, want 200", name, got)
		}
	}
	if got := get(s.Endpoints().Admin+"/readyz", "", ""); got != 200 {
		t.Errorf("/readyz without a token: %d, want 200", got)
	}
}
