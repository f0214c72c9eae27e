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

// openServices makes the part that talks to service brokers.
func openServices(c Config, r *runtime, publicURL string) *services.Services {
	return services.New(services.Config{
		Store: r.store, Platform: r.platform, Signals: r, Log: c.Log, Number: web.Number,
		Broker: osb.Options{Timeout: c.BrokerTimeout, Through: c.seams.broker, Guard: c.guard(), Routes: r.routes, APIInfo: apiInfo(publicURL)}, Worker: workerName(c.DataDir),
	})
}

// apiInfo is where brokers learn about the platform, as they are told: without a
// scheme.
func apiInfo(publicURL string) string {
	u, err := url.Parse(publicURL)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Host + strings.TrimRight(u.Path, "/") + "/v2/info"
}

// dashboards keeps the OAuth clients of brokers' dashboards.
type dashboards struct{ client *uaaclient.Client }

func (d dashboards) Exists(ctx context.Context, id string) (bool, error) {
	exists, err := d.client.ClientExists(ctx, id)
	return exists, dashboardFault(err)
}

// Put replaces a client by deleting it first: a secret can be changed by
// administrators only, and we are none.
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

// workerName is the same for every server of a data directory, of which there
// is one at a time.
func workerName(dir string) string {
	host, _ := os.Hostname() // none is a name, too
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(host + "\x00" + dir))
	return "server-" + hex.EncodeToString(sum[:8])
}

// registerBroker makes a broker known that comes with the server, or brings its
// catalog up to date. It may be called at every start, and again whenever its
// address or password changed.
func (r *runtime) registerBroker(ctx context.Context, name, url, user, password string) error {
	return r.services.Register(ctx, name, url, user, password)
}
