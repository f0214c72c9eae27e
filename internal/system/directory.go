package system

import (
	"context"

	"ingot/internal/base/uaaclient"
	"ingot/internal/platform/api"
)

// directory implements api.Directory with the authorization server.
type directory struct{ client *uaaclient.Client }

func (d directory) UsersByID(ctx context.Context, ids []string) (map[string]api.DirectoryUser, error) {
	found, err := d.client.UsersByID(ctx, ids)
	users := make(map[string]api.DirectoryUser, len(found))
	for id, u := range found {
		users[id] = api.DirectoryUser(u)
	}
	return users, err
}

func (d directory) CreateUser(ctx context.Context, name, origin string) (api.DirectoryUser, error) {
	u, err := d.client.CreateUser(ctx, name, origin)
	return api.DirectoryUser(u), err
}

func (d directory) ClientExists(ctx context.Context, id string) (bool, error) {
	return d.client.ClientExists(ctx, id)
}

func (d directory) UsersByName(ctx context.Context, names, origins []string) ([]api.DirectoryUser, error) {
	found, err := d.client.UsersByName(ctx, names, origins)
	users := make([]api.DirectoryUser, 0, len(found))
	for _, u := range found {
		users = append(users, api.DirectoryUser(u))
	}
	return users, err
}
