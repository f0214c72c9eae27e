package system

import (
	"context"
	"net/http"

	"ingot/internal/auth"
	"ingot/internal/base/datadir"
	"ingot/internal/base/uaaclient"
	"ingot/internal/platform"
	"ingot/internal/platform/alerts"
	"ingot/internal/platform/logs"
)

// startAlerts starts the service that notifies developers of crashes of their apps.
// It is a client of the notification service.
func (s *System) startAlerts(ctx context.Context, b *frontend, dir *datadir.Dir, r *runtime, uaa *uaaclient.Client,
	client *http.Client) error {
	file, err := alerts.Position(dir)
	if err != nil {
		return err
	}
	c := alerts.Config{
		Store: r.store, Events: r.store, File: file, Lead: leadOf(r.cluster, "alerts"), Log: s.config.Log,
		Lines: func(ctx context.Context, app string, n int) ([]platform.LogLine, error) {
			return r.logs.Read(ctx, app, logs.ReadQuery{Limit: n, Descending: true})
		},
		Notifier: &alerts.Client{BaseURL: b.endpoints.Notifications, ClientID: auth.ClientPlatform, Tokens: uaa,
			HTTP: client},
	}
	if !r.cluster.Alone() {
		c.States = r.store
	}
	return s.steps.Run(ctx, alerts.New(c))
}
