package broker

import (
	"context"
	"errors"
)

// NotificationService is the notification service that bindings give access to.
type NotificationService struct {
	URL     string // of the notification service, as apps reach it
	AuthURL string // of the authorization server
	Clients Clients
}

// Clients manages OAuth clients of the authorization server. Both methods are
// idempotent.
type Clients interface {
	// EnsureClient creates or updates a client with exactly these authorities.
	EnsureClient(ctx context.Context, id, secret string, authorities []string) error
	// RemoveClient deletes a client and revokes its tokens. It is not an error
	// if the client does not exist.
	RemoveClient(ctx context.Context, id string) error
}

// errNoClients is the reason why notifications are not offered.
var errNoClients = errors.New("the authorization server is external, so no clients can be created there")

// notifications creates an OAuth client for every binding. An instance has only
// a plan.
type notifications struct {
	NotificationService
	secret secret
}

func (n *notifications) name() string                            { return local }
func (n *notifications) up(*instance) bool                       { return true }
func (n *notifications) wake(context.Context, *instance) error   { return nil }
func (n *notifications) ensure(context.Context, *instance) error { return nil }
func (n *notifications) start(context.Context) error             { return nil }
func (n *notifications) stop()                                   {}

func (n *notifications) create(context.Context, *instance, parameters) error { return nil }

func (n *notifications) drop(ctx context.Context, i *instance) error {
	for _, b := range i.Bindings {
		if err := n.unbind(ctx, i, b); err != nil {
			return err
		}
	}
	return nil
}

// resize gives the clients of all bindings the authorities of the plan.
func (n *notifications) resize(ctx context.Context, i *instance) error {
	for _, b := range i.Bindings {
		if b.Phase != ready {
			continue
		}
		if err := n.bind(ctx, i, b, n.secret.password("binding", i.ID, b.ID, b.Nonce)); err != nil {
			return err
		}
	}
	return nil
}

func (n *notifications) size(context.Context, *instance) (int64, error) { return 0, nil }

// client returns the id of a binding's client.
func (n *notifications) client(i *instance, b *binding) string {
	return "notifications-" + hash("binding", i.ID, b.ID)
}

func (n *notifications) bind(ctx context.Context, i *instance, b *binding, password string) error {
	return n.Clients.EnsureClient(ctx, n.client(i, b), password, planOf(i).authorities)
}

func (n *notifications) unbind(ctx context.Context, i *instance, b *binding) error {
	return n.Clients.RemoveClient(ctx, n.client(i, b))
}

// target returns no endpoint: the platform's own port is open to all instances.
func (n *notifications) target(*instance) endpoint { return endpoint{} }
func (n *notifications) capacity(*instance) int    { return 0 }

func (n *notifications) credentials(i *instance, b *binding, _ endpoint, password string) map[string]any {
	return map[string]any{"url": n.URL, "auth_url": n.AuthURL, "client_id": n.client(i, b), "client_secret": password}
}
