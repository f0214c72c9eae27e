package system

import (
	"context"

	"ingot/internal/base/uaaclient"
	"ingot/internal/platform/api/orgs"
)

// directory implements orgs.Directory with the authorization server.
type directory struct{ client *uaaclient.Client }

func (d directory) UsersByID(ctx context.Context, ids []string) (map[string]orgs.DirectoryUser, error) {
	found, err := d.client.UsersByID(ctx, ids)
	users := make(map[string]orgs.DirectoryUser, len(found))
	for id, u := range found {
		users[id] = orgs.DirectoryUser(u)
	}
	return users, err
}

func (d directory) CreateUser(ctx context.Context, name, origin string) (orgs.DirectoryUser, error) {
	u, err := d.client.CreateUser(ctx, name, origin)
	return orgs.DirectoryUser(u), err
}

func (d directory) ClientExists(ctx context.Context, id string) (bool, error) {
	return d.client.ClientExists(ctx, id)
}

func (d directory) UsersByName(ctx context.Context, names, origins []string) ([]orgs.DirectoryUser, error) {
	found, err := d.client.UsersByName(ctx, names, origins)
	users := make([]orgs.DirectoryUser, 0, len(found))
	for _, u := range found {
		users = append(users, orgs.DirectoryUser(u))
	}
	return users, err
}
