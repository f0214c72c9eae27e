package audience_test

import (
	"slices"
	"testing"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/fault"
	"ingot/internal/base/uaaclient"
	"ingot/internal/notify"
	"ingot/internal/notify/audience"
)

// TestRights asks Ingot's own authorization server what clients and users may do, while that changes.
func TestRights(t *testing.T) {
	t.Parallel()
	authURL, store, users := realAuth(t)
	now := time.Now()
	const write, critical = "notifications.write", "critical_notifications.write"
	both := []string{write, critical}
	shop := &auth.Client{ID: "shop", GrantTypes: []string{auth.GrantClientCredentials}, Authorities: both,
		Scopes: []string{"notifications.*"}, Secrets: []string{""}, Created: now, Modified: now}
	change := func(id string, authorities, scopes []string) func() error {
		return func() error {
			_, err := store.UpdateClient(t.Context(), id, func(c *auth.Client) error {
				c.Authorities, c.Scopes = authorities, scopes
				return nil
			})
			return err
		}
	}
	join := func() error {
		all, _, err := store.Groups(t.Context(), auth.Query{Count: 1000})
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(g *auth.Group) bool { return g.Name == write })
		member := auth.Member{ID: users[0], Type: auth.MemberUser, Origin: auth.OriginUAA}
		return store.AddMember(t.Context(), all[at].ID, member)
	}
	client, user := &notify.Holder{}, &notify.Holder{UserID: users[0]}
	for _, step := range []struct {
		name string
		do   func() error
		by   *notify.Holder
		want []string // nil: it is gone
	}{
		{"no such client", func() error { return nil }, client, nil},
		{"a client with both", func() error { return store.CreateClient(t.Context(), shop) }, client, both},
		{"a user without the group", func() error { return nil }, user, []string{}},
		{"a user in the group", join, user, []string{write}},
		{"critical lost", change("shop", []string{write}, []string{write}), client, []string{write}},
		{"all lost, but users may", change("shop", []string{"uaa.none"}, []string{write}), client, []string{}},
		{"from before holders were stored", func() error { return nil }, nil, []string{write}},
		{"the scope of users lost", change("shop", both, []string{"openid"}), user, []string{}},
		{"the user is deleted", func() error { _, err := store.DeleteUser(t.Context(), users[0]); return err }, user, nil},
		{"the client is deleted", func() error { _, err := store.DeleteClient(t.Context(), "shop"); return err }, client,
			nil},
		{"the service may not read clients", change(auth.ClientNotifications, []string{"scim.read"}, nil), client, both},
		{"nor then what of a user that is gone", func() error { return nil }, user, nil},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		// A new one has neither a token nor anything cached.
		uaa := uaaclient.New(uaaclient.Options{BaseURL: authURL, ClientID: auth.ClientNotifications, Secret: "n&n"})
		dir := audience.New(audience.Options{UAA: uaa})
		got, err := dir.Held(t.Context(), "shop", step.by, both)
		uaa.Close()
		dir.Close()
		if step.want == nil != fault.Is(err, fault.NotFound) || step.want != nil && (err != nil || !slices.Equal(got,
			step.want) && len(got)+len(step.want) > 0) {
			t.Errorf("%s: got %q, %v, want %q", step.name, got, err, step.want)
		}
	}
}

// TestRightsUnknown: a server that fails takes no right away.
func TestRightsUnknown(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 429, 500, 503} {
		b := setup(t)
		b.world.fail = status
		if _, err := b.dir.Held(t.Context(), "shop", nil, nil); !fault.Is(err, fault.Unavailable) {
			t.Errorf("after %d: %v", status, err)
		}
	}
}
