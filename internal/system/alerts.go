package system

import (
	"context"
	"log/slog"
	"net/http"

	"ingot/internal/auth"
	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/uaaclient"
	"ingot/internal/platform"
	"ingot/internal/platform/alerts"
	"ingot/internal/platform/logs"
)

// newAlerts returns the service that notifies developers of crashes of their apps.
// It is a client of the notification service.
func newAlerts(b *frontend, dir *datadir.Dir, r *runtime, uaa *uaaclient.Client, client *http.Client, log *slog.Logger) background.Service {
	c := alerts.Config{
		Store: r.store, File: dir.File("herald.json"), Lead: leadOf(r.cluster, "alerts"), Log: log,
		Lines: func(ctx context.Context, app string, n int) ([]platform.LogLine, error) {
			return r.logs.Read(ctx, app, logs.ReadQuery{Limit: n, Descending: true})
		},
		Notifier: &alerts.Client{BaseURL: b.endpoints.Notifications, ClientID: auth.ClientPlatform, Tokens: uaa, HTTP: client},
	}
	if !r.cluster.Alone() {
		c.States = r.store
	}
	return alerts.New(c)
}
