package system

import (
	"net/http"
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
