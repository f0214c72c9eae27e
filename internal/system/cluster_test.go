//go:build unix

package system

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/seal"
	"ingot/internal/server/cluster"
)

// pairConfigs are servers on one PostgreSQL, as if their engine were shared.
func pairConfigs(t *testing.T, n int) []Config {
	t.Helper()
	database, key := dbtest.URL(t, db.Postgres), seal.NewKey()
	all := make([]Config, n)
	for i := range all {
		c := testConfig(t)
		c.DatabaseURL, c.EncryptionKey, c.PublicURL, c.AdminClientSecret = database, key, "http://ingot.example.org",
			"the secret"
		c.seams.cluster = func(o *cluster.Options) { o.Exclusive = false }
		all[i] = c
	}
	return all
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for !ok() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("got no %s, want it", what)
		}
	}
}

// TestServersShareUsers starts two servers on one empty database at once.
func TestServersShareUsers(t *testing.T) {
	t.Parallel()
	configs := pairConfigs(t, 2)
	one, two := newSystem(t, configs[0]), newSystem(t, configs[1])
	started := make(chan error, 1)
	go func() { started <- one.Start(t.Context()) }()
	if err := two.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	a, b := one.Endpoints().API, two.Endpoints().API
	keys := func(base string) string { return call(t, http.MethodGet, base+"/token_keys", "", nil).body }
	if keys(a) != keys(b) {
		t.Errorf("signing keys %s and %s, want the same", keys(a), keys(b))
	}
	// Their data directories were empty, and still they have the same secrets.
	hostKey := func(base string) any {
		links := call(t, http.MethodGet, base+"/", "", nil).json(t)["links"].(map[string]any)
		return links["app_ssh"].(map[string]any)["meta"].(map[string]any)["host_key_fingerprint"]
	}
	if hostKey(a) != hostKey(b) || hostKey(a) == "" {
		t.Errorf("ssh host keys %v and %v, want the same", hostKey(a), hostKey(b))
	}
	if x, y := one.Generated().AdminPassword, two.Generated().AdminPassword; (x == "") == (y == "") {
		t.Errorf("passwords %q and %q were shown, want one of them", x, y)
	}
	admin := clientToken(t, one, "admin", "the secret")
	if got := call(t, http.MethodGet, b+"/oauth/clients/ssh-proxy", admin, nil); got.status != http.StatusOK {
		t.Errorf("the client of the ssh gateway: %d, want 200: %s", got.status, got.body)
	}
	made := call(t, http.MethodPost, a+"/Users", admin, map[string]any{
		"userName": "joe", "password": "p", "emails": []map[string]any{{"value": "joe@example.org"}},
	})
	id, _ := made.json(t)["id"].(string)
	if got := call(t, http.MethodPost, b+"/v3/users", admin,
		map[string]string{"guid": id}); got.status != http.StatusCreated {
		t.Errorf("creating a user at the other server: %d, want 201: %s", got.status, got.body)
	}
	for i, base := range []string{a, b} {
		if got := call(t, http.MethodGet, base+"/v3/users/"+id, admin, nil); got.status != http.StatusOK ||
			got.json(t)["username"] != "joe" {
			t.Errorf("server %d shows the user as %d %s, want joe", i+1, got.status, got.body)
		}
	}
	// A token revoked at one server is soon rejected by the other, and a signing key
	// created by one is soon used by the other.
	joe, _ := call(t, http.MethodPost, b+"/oauth/token", "", url.Values{
		"grant_type": {"password"}, "client_id": {"cf"}, "client_secret": {""}, "username": {"joe"}, "password": {"p"},
	}).json(t)["access_token"].(string)
	if got := call(t, http.MethodGet, a+"/userinfo", joe, nil); got.status != http.StatusOK {
		t.Errorf("a token of the other server: %d, want 200: %s", got.status, got.body)
	}
	call(t, http.MethodDelete, b+"/Users/"+id, admin, nil)
	until(t, "revocation at the other server", func() bool {
		return call(t, http.MethodGet, a+"/userinfo", joe, nil).status == http.StatusUnauthorized
	})
	call(t, http.MethodPost, a+"/token_keys/rotate", admin, nil)
	fresh := clientToken(t, one, "admin", "the secret")
	until(t, "new signing key at the other server", func() bool {
		return call(t, http.MethodGet, b+"/Users", fresh, nil).status == http.StatusOK
	})
	one.Stop()
	if got := call(t, http.MethodGet, b+"/Users", fresh, nil); got.status != http.StatusOK {
		t.Errorf("after the other server stopped: %d, want 200: %s", got.status, got.body)
	}
}

// A second server whose apps run on its machine is refused, and its start changes
// nothing.
func TestSecondServerOnOneDatabase(t *testing.T) {
	t.Parallel()
	configs := pairConfigs(t, 2)
	configs[0].seams.cluster, configs[1].seams.cluster = nil, nil
	startSystem(t, configs[0])
	err := newSystem(t, configs[1]).Start(t.Context())
	if refused := new(cluster.RefusedError); !errors.As(err, &refused) || refused.Server.PID != os.Getpid() {
		t.Errorf("got %v, want a refusal", err)
	}
}
