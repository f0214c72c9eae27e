package system

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"ingot/internal/auth"
	"ingot/internal/base/background"
	"ingot/internal/base/uaaclient"
	"ingot/internal/platform/alerts"
	"ingot/internal/platform/logs"
)

// newAlerts returns the service that notifies developers of crashes of their apps.
// It is a client of the notification service.
func newAlerts(b *frontend, dir *dataDir, r *runtime, platform *uaaclient.Client, client *http.Client, log *slog.Logger) background.Service {
	return alerts.New(alerts.Config{
		Store: r.store, File: dir.file("herald.json"), Log: log,
		Lines: func(ctx context.Context, app string, n int) ([]string, error) {
			entries, err := r.logs.Read(ctx, app, logs.ReadQuery{Limit: n, Descending: true})
			slices.Reverse(entries)
			lines := make([]string, len(entries))
			for i, e := range entries {
				lines[i] = fmt.Sprintf("%s [%s/%s] %s", e.Time.UTC().Format("15:04:05.00"), e.Source, e.Instance, e.Text)
			}
			return lines, err
		},
		Notifier: &alerts.Client{BaseURL: b.endpoints.Notifications, ClientID: auth.ClientPlatform, Tokens: platform, HTTP: client},
	})
}
