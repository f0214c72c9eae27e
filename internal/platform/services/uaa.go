package services

import (
	"context"
	"fmt"
	"net/http"

	"ingot/internal/base/uaaclient"
	"ingot/internal/platform/services/osb"
)

// UAADashboards stores the OAuth clients of brokers' dashboards in a UAA-compatible
// authorization server. It implements Dashboards.
type UAADashboards struct{ Client *uaaclient.Client }

// Exists implements Dashboards.
func (d UAADashboards) Exists(ctx context.Context, id string) (bool, error) {
	exists, err := d.Client.ClientExists(ctx, id)
	return exists, dashboardError(err)
}

// Put implements Dashboards. It replaces a client by deleting it first, because
// only administrators may change a secret.
func (d UAADashboards) Put(ctx context.Context, c osb.DashboardClient) error {
	if err := d.Delete(ctx, c.ID); err != nil {
		return err
	}
	return dashboardError(d.Client.CreateClient(ctx, uaaclient.OAuthClient{
		ID: c.ID, Secret: c.Secret, RedirectURIs: []string{c.RedirectURI}, GrantTypes: []string{"authorization_code",
			"refresh_token"},
		Scopes: []string{"openid", "cloud_controller_service_permissions.read"}, Authorities: []string{"uaa.resource"},
	}))
}

// Delete implements Dashboards.
func (d UAADashboards) Delete(ctx context.Context, id string) error {
	return dashboardError(d.Client.DeleteClient(ctx, id))
}

func dashboardError(err error) error {
	if status := uaaclient.StatusOf(err); status == http.StatusForbidden || status == http.StatusUnauthorized {
		return fmt.Errorf("%w: %w", ErrNoDashboards, err)
	}
	return err
}
