package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"ingot/internal/broker/forward"
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
	// EnsureClient creates or updates a client with exactly these secrets, each of which is
	// valid, and these authorities.
	EnsureClient(ctx context.Context, id string, secrets, authorities []string) error
	// RemoveClient deletes a client and revokes its tokens. It is not an error
	// if the client does not exist.
	RemoveClient(ctx context.Context, id string) error
}

// errNoClients is the reason why notifications are not offered.
var errNoClients = errors.New("the authorization server is external, so no clients can be created there")

// notifications creates an OAuth client for every binding. A binding that succeeds another has
// the same client with another secret, because a client's registrations belong to its id. An
// instance has only a plan.
type notifications struct {
	NotificationService
	secret secret
}

func (n *notifications) name() string                            { return local }
func (n *notifications) up(*instance) bool                       { return true }
func (n *notifications) wake(context.Context, *instance) error   { return nil }
func (n *notifications) ensure(context.Context, *instance) error { return nil }
func (n *notifications) start(context.Context) error             { return nil }
func (n *notifications) stop(bool)                               {}

func (n *notifications) create(context.Context, *instance, parameters) error { return nil }

func (n *notifications) drop(ctx context.Context, i *instance) error {
	for _, b := range i.Bindings {
		if err := n.Clients.RemoveClient(ctx, n.client(i, b)); err != nil {
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
		if err := n.bind(ctx, i, b, ""); err != nil {
			return err
		}
	}
	return nil
}

func (n *notifications) size(context.Context, *instance) (int64, error) { return 0, nil }

// client returns the id of a binding's client.
func (n *notifications) client(i *instance, b *binding) string {
	return "notifications-" + hash("binding", i.ID, b.root())
}

// secrets returns those of all bindings that have the client of b and are not being deleted,
// the newest first.
func (n *notifications) secrets(i *instance, b *binding) (all []string) {
	var same []*binding
	for _, other := range i.Bindings {
		if other.root() == b.root() && other.Phase != deleting {
			same = append(same, other)
		}
	}
	slices.SortFunc(same, func(x, y *binding) int {
		return cmp.Or(y.CreatedAt.Compare(x.CreatedAt),
			cmp.Compare(x.ID, y.ID))
	})
	for _, other := range same {
		all = append(all, n.secret.password("binding", i.ID, other.ID, other.Nonce))
	}
	return all
}

func (n *notifications) bind(ctx context.Context, i *instance, b *binding, _ string) error {
	return n.Clients.EnsureClient(ctx, n.client(i, b), n.secrets(i, b), planOf(i).authorities)
}

func (n *notifications) unbind(ctx context.Context, i *instance, b *binding) error {
	if left := n.secrets(i, b); len(left) > 0 {
		return n.Clients.EnsureClient(ctx, n.client(i, b), left, planOf(i).authorities)
	}
	return n.Clients.RemoveClient(ctx, n.client(i, b))
}

// target returns no endpoint: the platform's own port is open to all instances.
func (n *notifications) target(*instance) forward.Endpoint { return forward.Endpoint{} }
func (n *notifications) capacity(*instance) int            { return 0 }

func (n *notifications) credentials(i *instance, b *binding, _ forward.Endpoint, password string) map[string]any {
	return map[string]any{"url": n.URL, "auth_url": n.AuthURL, "client_id": n.client(i, b), "client_secret": password}
}
