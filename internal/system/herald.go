package system

import (
	"log/slog"
	"net/http"

	"ingot/internal/herald"
	"ingot/internal/run"
	"ingot/internal/uaaclient"
)

// newHerald tells developers what happens to their apps, as a client of the
// notification service.
func newHerald(b *building, dir *dataDir, r *runtime, platform *uaaclient.Client, client *http.Client, log *slog.Logger) run.Service {
	return herald.New(herald.Config{
		Store: r.store, File: dir.file("herald.json"), Log: log,
		Notifier: &herald.Client{BaseURL: b.endpoints.Notifications, Tokens: platform, HTTP: client},
	})
}
