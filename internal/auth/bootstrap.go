package auth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"ingot/internal/base/background"
)

// Secrets are the secrets of the first user and clients.
type Secrets struct {
	AdminPassword     string
	AdminClientSecret string
	// AdminEmail is the address of the first user.
	AdminEmail string
	// Components holds the secret of each of Ingot's components, by client id.
	Components map[string]string
}

// The clients of Ingot's components.
const (
	ClientPlatform      = "ingot-platform"
	ClientNotifications = "ingot-notifications"
	ClientConsole       = "ingot-console"
	// ClientSSH is the ssh gateway's; its name is fixed in the cf client.
	ClientSSH = "ssh-proxy"
)

// firstClients are the clients every server has. Their secrets are filled in
// by Bootstrap; cf has an empty one, as everywhere in Cloud Foundry.
func firstClients(consoleRedirects []string) []*Client {
	return []*Client{
		{
			ID: "admin", GrantTypes: []string{GrantClientCredentials}, Scopes: []string{"uaa.none"},
			Authorities: []string{
				"clients.admin", "clients.read", "clients.secret", "clients.write", "cloud_controller.admin", "password.write",
				"scim.create", "scim.read", "scim.write", "uaa.admin", "uaa.resource",
			},
		},
		{
			ID: "cf", GrantTypes: []string{GrantPassword, GrantRefreshToken, GrantJWTBearer}, Authorities: []string{"uaa.none"},
			Scopes: slices.Concat(defaultGroups, adminGroups, []string{"cloud_controller.admin_read_only",
				"cloud_controller.global_auditor"}),
		},
		{
			ID: ClientSSH, GrantTypes: []string{GrantAuthorizationCode, GrantRefreshToken}, Authorities: []string{"uaa.none"},
			Scopes: []string{"openid", "cloud_controller.read", "cloud_controller.write", "cloud_controller.admin",
				"uaa.user"},
			RedirectURIs: []string{"http://localhost/"}, AutoApprove: []string{"true"},
		},
		{
			ID: ClientPlatform, GrantTypes: []string{GrantClientCredentials}, Scopes: []string{"uaa.none"},
			Authorities: []string{"scim.read", "scim.create", "uaa.resource", "notifications.manage", "notifications.write",
				"critical_notifications.write", "notification_templates.read", "notification_templates.write",
				// To keep the clients of service dashboards, with their scopes.
				"clients.read", "clients.write", "openid", "cloud_controller_service_permissions.read"},
		},
		{
			ID: ClientNotifications, GrantTypes: []string{GrantClientCredentials}, Scopes: []string{"uaa.none"},
			// clients.read is for what clients may do when a recurring send is due.
			Authorities: []string{"scim.read", "cloud_controller.admin_read_only", "clients.read"},
		},
		{
			ID: ClientConsole, GrantTypes: []string{GrantAuthorizationCode, GrantRefreshToken},
			Authorities: []string{"uaa.none"},
			Scopes: slices.Concat(defaultGroups, adminGroups, []string{"cloud_controller.admin_read_only",
				"cloud_controller.global_auditor"}),
			RedirectURIs: consoleRedirects, AutoApprove: []string{"true"},
		},
	}
}

// Bootstrap creates the groups, the user admin, the first clients and the first
// signing key where they do not exist. Existing ones are not changed, so that
// it can run at every start and be interrupted at any time.
func Bootstrap(ctx context.Context, store Store, secrets Secrets, consoleRedirects []string, log *slog.Logger) error {
	b := &bootstrap{store: store, hash: newHasher(2), log: log, now: time.Now().UTC()}
	for _, name := range slices.Sorted(maps.Keys(groupSet())) {
		if err := b.group(ctx, name); err != nil {
			return fmt.Errorf("create the group %s: %w", name, err)
		}
	}
	// Hashing and key generation take most of the time of a first start.
	var work background.WaitGroup
	clients := firstClients(consoleRedirects)
	errs := make([]error, 2+len(clients))
	work.Try("auth bootstrap", &errs[0], func() error {
		if err := b.admin(ctx, secrets.AdminPassword, secrets.AdminEmail); err != nil {
			return fmt.Errorf("create the user admin: %w", err)
		}
		return nil
	})
	work.Try("auth bootstrap", &errs[1], func() error { return newKeyring(store, time.Now, false).load(ctx) })
	for i, c := range clients {
		secret := secrets.Components[c.ID]
		if c.ID == "admin" {
			secret = secrets.AdminClientSecret
		}
		_, component := secrets.Components[c.ID]
		work.Try("auth bootstrap", &errs[2+i], func() error {
			if err := b.client(ctx, c, secret, component); err != nil {
				return fmt.Errorf("create the client %s: %w", c.ID, err)
			}
			return nil
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// errNoSecret means that an administrator was deleted while a server started that did not
// need its secret.
var errNoSecret = errors.New("its secret is not known; start the server again")

func groupSet() map[string]bool {
	set := map[string]bool{}
	for _, name := range slices.Concat(defaultGroups, adminGroups, otherGroups) {
		set[name] = true
	}
	return set
}

type bootstrap struct {
	store Store
	hash  *hasher
	log   *slog.Logger
	now   time.Time
	ids   map[string]string
}

// group remembers the id of a group, creating it if needed. The ids come from
// one listing: there are some dozens of groups and this runs at every start.
func (b *bootstrap) group(ctx context.Context, name string) error {
	if b.ids == nil {
		page, _, err := b.store.Groups(ctx, Query{Start: 1, Count: maxCount})
		if err != nil {
			return err
		}
		b.ids = map[string]string{}
		for _, g := range page {
			b.ids[g.Name] = g.ID
		}
	}
	if _, ok := b.ids[name]; ok {
		return nil
	}
	g := &Group{ID: newID(), Name: name, Created: b.now, Modified: b.now}
	err := b.store.CreateGroup(ctx, g)
	if errors.Is(err, ErrConflict) {
		return nil
	}
	b.ids[name] = g.ID
	return err
}

func (b *bootstrap) admin(ctx context.Context, password, email string) error {
	u, err := b.store.UserByName(ctx, "admin", OriginUAA)
	if errors.Is(err, ErrNotFound) {
		if password == "" {
			return errNoSecret
		}
		hash, err := b.hash.hash(ctx, password)
		if err != nil {
			return err
		}
		u = &User{
			ID: newID(), UserName: "admin", Origin: OriginUAA, Email: cmp.Or(email, "admin@localhost"), Active: true,
			Verified:     true,
			PasswordHash: hash, PasswordChanged: b.now, Created: b.now, Modified: b.now,
		}
		// Another server may have been faster; its admin is used.
		if err := b.store.CreateUser(ctx, u); errors.Is(err, ErrConflict) {
			return nil
		} else if err != nil {
			return err
		}
	} else if err != nil {
		return err
	} else if u.Version > 0 {
		// The user was changed since: do not touch its memberships.
		return nil
	}
	for _, name := range adminGroups {
		err := b.store.AddMember(ctx, b.ids[name], Member{ID: u.ID, Type: MemberUser, Origin: OriginUAA})
		if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// fingerprintsMember holds the fingerprints of the components' secrets. Each
// server of a shared database has its own; they are random and long, so that
// the fingerprints reveal nothing.
const fingerprintsMember = "ingot_secret_fingerprints"

func (b *bootstrap) client(ctx context.Context, c *Client, secret string, component bool) error {
	have, err := b.store.Client(ctx, c.ID)
	if err == nil && component {
		if err := b.complete(ctx, have, c); err != nil {
			return err
		}
		return b.addSecret(ctx, have, secret)
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	if secret == "" && c.ID == "admin" {
		return errNoSecret
	}
	// The secret of cf is empty and known to all.
	hash := hashRandom(secret)
	if !component && secret != "" {
		if hash, err = b.hash.hash(ctx, secret); err != nil {
			return err
		}
	}
	c.Secrets, c.Created, c.Modified = []string{hash}, b.now, b.now
	if component {
		c.More = map[string]json.RawMessage{fingerprintsMember: fingerprintList(fingerprint(secret))}
	}
	err = b.store.CreateClient(ctx, c)
	if errors.Is(err, ErrConflict) {
		return nil
	}
	return err
}

func fingerprintList(prints ...string) json.RawMessage {
	raw, _ := json.Marshal(prints) // of strings: cannot fail
	return raw
}

// complete adds the authorities and redirect URIs that a component created by an older version
// lacks. Scopes stay as an operator has set them.
func (b *bootstrap) complete(ctx context.Context, have, wanted *Client) error {
	add := func(c *Client) (changed bool) {
		for list, more := range map[*[]string][]string{&c.Authorities: wanted.Authorities,
			&c.RedirectURIs: wanted.RedirectURIs} {
			for _, one := range more {
				if !slices.Contains(*list, one) {
					*list, changed = append(*list, one), true
				}
			}
		}
		return changed
	}
	if trial := *have; !add(&trial) {
		return nil
	}
	_, err := b.store.UpdateClient(ctx, have.ID, func(c *Client) error { add(c); return nil })
	return err
}

// addSecret adds the secret of a further server of a shared database.
func (b *bootstrap) addSecret(ctx context.Context, c *Client, secret string) error {
	known := func(c *Client) []string {
		var prints []string
		_ = json.Unmarshal(c.More[fingerprintsMember], &prints)
		return prints
	}
	mine := fingerprint(secret)
	if slices.Contains(known(c), mine) {
		return nil
	}
	_, err := b.store.UpdateClient(ctx, c.ID, func(c *Client) error {
		prints := known(c)
		if slices.Contains(prints, mine) {
			return nil
		}
		if c.More == nil {
			c.More = map[string]json.RawMessage{}
		}
		c.Secrets = append(c.Secrets, hashRandom(secret))
		c.More[fingerprintsMember] = fingerprintList(append(prints, mine)...)
		return nil
	})
	return err
}
