package system

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"ingot/internal/base/uaaclient"
	"ingot/internal/base/web"
	"ingot/internal/platform/services"
	"ingot/internal/platform/services/osb"
)

// openServices returns the client of service brokers.
func openServices(c Config, r *runtime, publicURL string) *services.Services {
	return services.New(services.Config{
		Store: r.store, Platform: r.platform, Signals: r, Log: c.Log, Number: web.Number,
		Broker: osb.Options{Timeout: c.BrokerTimeout, Through: c.seams.broker, Guard: c.guard(), Routes: r.routes, APIInfo: apiInfo(publicURL)}, Worker: workerName(c.DataDir),
	})
}

// apiInfo returns the URL of /v2/info as brokers get it, without a scheme.
func apiInfo(publicURL string) string {
	u, err := url.Parse(publicURL)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Host + strings.TrimRight(u.Path, "/") + "/v2/info"
}

// dashboards manages the OAuth clients of brokers' dashboards.
type dashboards struct{ client *uaaclient.Client }

func (d dashboards) Exists(ctx context.Context, id string) (bool, error) {
	exists, err := d.client.ClientExists(ctx, id)
	return exists, dashboardFault(err)
}

// Put replaces a client by deleting it first, because only administrators may
// change a secret.
func (d dashboards) Put(ctx context.Context, c osb.DashboardClient) error {
	if err := d.Delete(ctx, c.ID); err != nil {
		return err
	}
	return dashboardFault(d.client.CreateClient(ctx, uaaclient.OAuthClient{
		ID: c.ID, Secret: c.Secret, RedirectURIs: []string{c.RedirectURI}, GrantTypes: []string{"authorization_code", "refresh_token"},
		Scopes: []string{"openid", "cloud_controller_service_permissions.read"}, Authorities: []string{"uaa.resource"},
	}))
}

func (d dashboards) Delete(ctx context.Context, id string) error {
	return dashboardFault(d.client.DeleteClient(ctx, id))
}

func dashboardFault(err error) error {
	if status := uaaclient.StatusOf(err); status == http.StatusForbidden || status == http.StatusUnauthorized {
		return fmt.Errorf("%w: %w", services.ErrNoDashboards, err)
	}
	return err
}

// workerName returns a name that is the same after a restart with the same data
// directory.
func workerName(dir string) string {
	host, _ := os.Hostname() // without a host name the directory is enough
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(host + "\x00" + dir))
	return "server-" + hex.EncodeToString(sum[:8])
}

// registerBroker registers the bundled broker, or updates its catalog. It may be
// called at every start, and whenever its address or password has changed.
func (r *runtime) registerBroker(ctx context.Context, name, url, user, password string) error {
	return r.services.Register(ctx, name, url, user, password)
}
