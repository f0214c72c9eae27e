package e2e

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// TestExternalAuthorization runs a platform with an external authorization
// server.
func TestExternalAuthorization(t *testing.T) {
	t.Parallel()
	a := start(t, options{})
	b := prepare(t, options{Args: []string{"--auth-url", a.API}})
	// The platform is a client there, and so is its ssh gateway; the operator
	// copies the secrets.
	for _, client := range []string{"ingot-platform", "ssh-proxy"} {
		b.giveSecret(t, client, a.secret(t, client))
	}
	b.launch(t)
	b.awaitReady(t)

	if b.Auth != a.API {
		t.Errorf("endpoints.json names %s as authorization server, want %s", b.Auth, a.API)
	}
	if out := b.Stdout.await(t, "What to type next"); strings.Contains(out, "Password") {
		t.Errorf("it prints secrets although users are kept elsewhere:\n%s", out)
	}
	for _, path := range []string{"/token_keys", "/login", "/Users", "/oauth/clients",
		"/.well-known/openid-configuration"} {
		b.call(t, http.MethodGet, path, "", nil).want(t, http.StatusNotFound)
	}
	b.call(t, http.MethodPost, "/oauth/token", "", url.Values{"grant_type": {"client_credentials"}}, basic("admin", "x")).
		want(t, http.StatusNotFound)
	if r := b.call(t, http.MethodGet, "/token_keys", "", nil,
		header{"Host", "uaa.localhost"}); r.Status != http.StatusNotFound {
		t.Errorf("uaa.localhost: %s", r)
	}

	admin := a.adminToken(t)
	id := a.createUser(t, admin, "joe", "p")
	if got := b.call(t, http.MethodPost, "/v3/users", admin, map[string]string{"guid": id}).want(t, http.StatusCreated).
		object(t); got["username"] != "joe" {
		t.Errorf("the user on the platform: %v", got)
	}
	b.call(t, http.MethodPost, "/v3/users", a.userTokens(t, "joe", "p").Access, map[string]string{"guid": "x"}).
		want(t, http.StatusForbidden)
	stranger := start(t, options{})
	b.call(t, http.MethodPost, "/v3/users", stranger.adminToken(t), map[string]string{"guid": "x"}).
		want(t, http.StatusUnauthorized)

	// cf follows the links of b to a.
	home := cfHome(t, b)
	cfOK(t, home, "auth", "admin", a.secret(t, "admin-password"))
	cfOK(t, home, "create-user", "ann", "p")
	cfOK(t, home, "delete-user", "-f", "ann")

	// The ssh gateway of b accepts a one-time code of a; only the app does not
	// exist.
	code := strings.TrimSpace(cfOK(t, home, "ssh-code"))
	if c, err := ssh.Dial("tcp", b.SSH, &ssh.ClientConfig{
		User: "cf:nothing/0", Auth: []ssh.AuthMethod{ssh.Password(code)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		Timeout: patience,
	}); err == nil {
		c.Close()
		t.Error("ssh leads somewhere although there is no app")
	}
	b.Stderr.await(t, `"msg":"ssh refused","process":"nothing","index":0,"user":"admin","error":"ResourceNotFound: `)

	// While a is down, b uses the cached keys, also for a token that it has not
	// seen before.
	unseen := a.adminToken(t)
	a.Kill9(t)
	for _, token := range []string{admin, unseen} {
		if got := b.call(t, http.MethodGet, "/v3/users/"+id, token, nil).want(t, http.StatusOK).object(t); got["guid"] != id {
			t.Errorf("while the authorization server is away: %v", got)
		}
	}
	b.Stop(t)

	// Without a, b starts, and responds that it cannot verify tokens yet.
	b.launch(t)
	b.Stderr.await(t, `"msg":"ready"`)
	b.awaitEndpoints(t)
	r := b.call(t, http.MethodGet, "/v3/users/"+id, admin, nil).want(t, http.StatusServiceUnavailable)
	if r.Header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	r = b.call(t, http.MethodGet, "/readyz", "", nil).want(t, http.StatusServiceUnavailable)
	if missing, _ := r.object(t)["not_ready"].([]any); !slices.Contains(missing, any("authorization server")) {
		t.Errorf("not ready: %s", r)
	}
	b.call(t, http.MethodGet, "/healthz", "", nil).want(t, http.StatusOK)
	b.call(t, http.MethodGet, "/v3/info", "", nil).want(t, http.StatusOK)

	// As soon as a is back, everything works.
	a.Restart(t)
	b.awaitReady(t)
	if got := b.call(t, http.MethodGet, "/v3/users/"+id, admin, nil).want(t, http.StatusOK).
		object(t); got["username"] != "joe" {
		t.Errorf("when the authorization server is back: %v", got)
	}
	b.Stop(t)
	a.Stop(t)
}
