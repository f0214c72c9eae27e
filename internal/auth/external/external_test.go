package external_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"ingot/internal/auth/external"
	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/uaaclient"
)

func TestServerStartsAndStops(t *testing.T) {
	t.Parallel()
	uaa := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": "http://uaa.example.org/oauth/token"})
	}))
	t.Cleanup(uaa.Close)
	client := uaaclient.NewHTTPClient(nil)
	t.Cleanup(client.CloseIdleConnections)
	for name, base := range map[string]string{"there": uaa.URL, "away": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backgroundtest.Stress(t, func(*testing.T) background.Service {
				return external.New(base, client, slog.New(slog.DiscardHandler), func() {})
			})
		})
	}
}
