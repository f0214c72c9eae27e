package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"

	"ingot/internal/auth"
	"ingot/internal/base/datadir"
	"ingot/internal/base/uaaclient"
	"ingot/internal/platform"
	"ingot/internal/platform/alerts"
	"ingot/internal/platform/logs"
)

const (
	// alertsFile is how far the events of apps were read, in the data directory.
	alertsFile = "alerts.json"
	// oldAlertsFile is its name in builds before 0.1.0.
	oldAlertsFile = "herald.json"
)

// alertsPosition returns the path of alertsFile. A file with the old name is newer than one
// with the new name, because only an older version writes it: it replaces the other.
func alertsPosition(dir *datadir.Dir) (string, error) {
	path := dir.File(alertsFile)
	if err := os.Rename(dir.File(oldAlertsFile), path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("alerts: %w", err)
	}
	return path, nil
}

// startAlerts starts the service that notifies developers of crashes of their apps.
// It is a client of the notification service.
func (s *System) startAlerts(ctx context.Context, b *frontend, dir *datadir.Dir, r *runtime, uaa *uaaclient.Client, client *http.Client) error {
	file, err := alertsPosition(dir)
	if err != nil {
		return err
	}
	c := alerts.Config{
		Store: r.store, Events: r.store, File: file, Lead: leadOf(r.cluster, "alerts"), Log: s.config.Log,
		Lines: func(ctx context.Context, app string, n int) ([]platform.LogLine, error) {
			return r.logs.Read(ctx, app, logs.ReadQuery{Limit: n, Descending: true})
		},
		Notifier: &alerts.Client{BaseURL: b.endpoints.Notifications, ClientID: auth.ClientPlatform, Tokens: uaa, HTTP: client},
	}
	if !r.cluster.Alone() {
		c.States = r.store
	}
	return s.steps.Run(ctx, alerts.New(c))
}
