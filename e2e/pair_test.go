package e2e

import (
	"net/http"
	"slices"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

// TestTwoServers starts two servers on one empty database.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	o := options{
		DB:   dbtest.URL(t, db.Postgres),
		Args: []string{"--public-url", "http://ingot.example.org"},
		Env: []string{
			"INGOT_ENCRYPTION_KEY=" + newKey(), "INGOT_ADMIN_PASSWORD=the password", "INGOT_ADMIN_CLIENT_SECRET=the secret",
		},
	}
	one, two := prepare(t, o), prepare(t, o)
	both := []*Server{one, two}
	for _, s := range both {
		// Each data directory would have its own secret of the platform's client,
		// and the database only that of the first server.
		s.giveSecret(t, "ingot-platform", "the platform's: 100% + &")
	}
	for _, s := range both {
		s.launch(t)
	}
	for _, s := range both {
		s.awaitReady(t)
	}
	if a, b := one.kids(t), two.kids(t); len(a) != 1 || !slices.Equal(a, b) {
		t.Errorf("signing keys %v and %v, want the same one", a, b)
	}

	admin := one.clientToken(t, "admin", "the secret")
	two.call(t, http.MethodGet, "/Users", admin, nil).want(t, http.StatusOK)
	id := one.createUser(t, admin, "joe", "p")
	user := two.userTokens(t, "joe", "p")
	one.call(t, http.MethodGet, "/userinfo", user.Access, nil).want(t, http.StatusOK)
	var next tokens
	one.refresh(t, user.Refresh).want(t, http.StatusOK).into(t, &next)
	two.call(t, http.MethodGet, "/userinfo", next.Access, nil).want(t, http.StatusOK)

	one.call(t, http.MethodPost, "/v3/users", admin, map[string]string{"guid": id}).want(t, http.StatusCreated)
	for i, s := range both {
		s.userTokens(t, "admin", "the password")
		if got := s.call(t, http.MethodGet, "/v3/users/"+id, admin, nil).want(t, http.StatusOK).object(t); got["username"] != "joe" {
			t.Errorf("server %d shows the user as %v", i+1, got)
		}
	}

	// A token revoked at one server is soon rejected by the other.
	two.call(t, http.MethodDelete, "/Users/"+id, admin, nil).want(t, http.StatusOK)
	two.call(t, http.MethodGet, "/userinfo", next.Access, nil).want(t, http.StatusUnauthorized)
	one.poll(t, "notice that the user is gone", func() bool {
		return one.call(t, http.MethodGet, "/userinfo", next.Access, nil).Status == http.StatusUnauthorized
	})
	// A signing key created by one is soon used by the other.
	one.call(t, http.MethodPost, "/token_keys/rotate", admin, nil).want(t, http.StatusOK)
	fresh := one.clientToken(t, "admin", "the secret")
	two.poll(t, "accept the new signing key", func() bool {
		return two.call(t, http.MethodGet, "/Users?count=1", fresh, nil).Status == http.StatusOK
	})
	two.call(t, http.MethodGet, "/Users?count=1", admin, nil).want(t, http.StatusOK)

	// One stops, the other continues.
	one.Kill9(t)
	two.userTokens(t, "admin", "the password")
	one.Restart(t)
	one.userTokens(t, "admin", "the password")
	two.Stop(t)
	one.Stop(t)
}
