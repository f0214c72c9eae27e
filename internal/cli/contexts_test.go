package cli_test

import (
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/cli/config"
)

// ok runs the client, which must succeed.
func (w *world) ok(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := w.run(args...)
	if code != 0 {
		t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errs)
	}
	return out + errs
}

// fails runs the client, which must fail with these words.
func (w *world) fails(t *testing.T, want string, args ...string) {
	t.Helper()
	out, errs, code := w.run(args...)
	if code != 1 || !strings.Contains(errs, want) {
		t.Errorf("%v: exit code %d, want 1 and %q\n%s%s", args, code, want, out, errs)
	}
}

// A login to another server makes another context; the first one keeps its login.
func TestLoginsAtSeveralServers(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newFake(t)
	host := func(f *fake) string { return strings.ReplaceAll(strings.TrimPrefix(f.URL, "http://"), ":", "-") }
	w.ok(t, "login", "-a", w.api.URL, "-u", "admin", "-p", "x", "-o", "acme", "-s", "dev")
	w.ok(t, "login", "-a", other.URL+"/", "-u", "admin", "-p", "x")
	if c := w.saved(t, ""); c.Name() != host(other) || c.API != other.URL || c.AccessToken == "" {
		t.Errorf("the current context is %s: %+v", c.Name(), c)
	}
	w.ok(t, "context", "rename", host(w.api), "prod")
	if c := w.saved(t, "prod"); c.API != w.api.URL || c.AccessToken == "" || c.Space.Name != "dev" {
		t.Errorf("prod: %+v", c)
	}
	other.calls, w.api.calls = nil, nil
	w.ok(t, "apps", "--context", "prod")
	w.ok(t, "--context", "prod", "apps")
	w.ok(t, "--context=prod", "apps")
	if len(other.calls) > 0 || len(w.api.calls) == 0 {
		t.Errorf("--context: calls %v and %v", other.calls, w.api.calls)
	}
	w.env["INGOT_CONTEXT"] = "prod"
	if out := w.ok(t, "target"); !strings.Contains(out, "prod") {
		t.Errorf("INGOT_CONTEXT: %s", out)
	}
	if out := w.ok(t, "context", "use", host(other)); !strings.Contains(out, "INGOT_CONTEXT is set") {
		t.Errorf("it does not warn of the variable: %s", out)
	}
	w.fails(t, "nowhere", "apps", "--context", "nowhere")
	delete(w.env, "INGOT_CONTEXT")
	// The same server is the same context, also without being named.
	w.ok(t, "login", "-a", w.api.URL, "-u", "admin", "-p", "x")
	if c := w.saved(t, ""); c.Name() != "prod" {
		t.Errorf("logged in to %s, want prod", c.Name())
	}
	// A named context can be new, and stays apart. The current one does not change.
	w.ok(t, "login", "--context", "test", "-a", other.URL, "-u", "admin", "-p", "x")
	if c := w.saved(t, ""); c.Name() != "prod" || w.saved(t, "test").AccessToken == "" {
		t.Errorf("after a login to test, the current context is %s", c.Name())
	}
	w.ok(t, "context", "remove", "prod", "-f")
	w.fails(t, "Existing contexts: "+host(other)+", test", "apps")
	w.ok(t, "api", "--unset", "--context", "test")
	if out := w.ok(t, "contexts"); strings.Contains(out, "test ") || !strings.Contains(out, host(other)) {
		t.Errorf("after 'api --unset': %s", out)
	}
}

// rotates makes the server replace a refresh token with each use, and refuse an old one, as
// Ingot's authorization server does.
func (f *fake) rotates() (uses func() int) {
	var mu sync.Mutex
	n := 0
	name := func() string { return fmt.Sprintf("refresh-%d", n) }
	f.instead["POST /oauth/token"] = func(*http.Request) (int, any) {
		mu.Lock()
		defer mu.Unlock()
		if f.body("POST /oauth/token", "grant_type=password") {
			return 200, object{"access_token": userToken(time.Hour), "refresh_token": "another login", "token_type": "bearer"}
		}
		if !f.body("POST /oauth/token", url.Values{"refresh_token": {name()}}.Encode()) {
			return 401, object{"error": "invalid_token", "error_description": "reused"}
		}
		n++
		return 200, object{"access_token": userToken(time.Hour + time.Duration(n)*time.Minute), "refresh_token": name(),
			"token_type": "bearer"}
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// Commands that run at once renew the login once: the server would refuse a second use of the
// same refresh token.
func TestRenewedOnce(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	uses := w.api.rotates()
	w.change(t, func(c *config.Config) { c.AccessToken, c.RefreshToken = userToken(-time.Minute), "refresh-0" })
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if out, errs, code := w.run("apps"); code != 0 {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
	all.Wait()
	if c := w.saved(t, ""); uses() != 1 || c.RefreshToken != "refresh-1" {
		t.Errorf("renewed %d times, the refresh token is %s, want once and refresh-1", uses(), c.RefreshToken)
	}
}

// The login that the cf CLI has is a context, and a renewed one is written back.
func TestLoginOfTheCFCLI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(w.home, ".cf", "config.json")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(version int) {
		content := fmt.Sprintf(`{"ConfigVersion": %d, "Target": %[2]q, "AuthorizationEndpoint": %[2]q, "UaaEndpoint": %[2]q,
			"AccessToken": "bearer %[3]s", "RefreshToken": "refresh-0", "UAAOAuthClient": "cf", "Locale": "de-DE",
			"OrganizationFields": {"GUID": "org-guid", "Name": "acme"}, "SpaceFields": {"GUID": "space-guid", "Name": "dev"}}`,
			version, w.api.URL, userToken(-time.Minute))
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(4)
	w.api.rotates()
	w.fails(t, "Existing contexts: cf", "apps")
	w.ok(t, "context", "use", "cf")
	if out := w.ok(t, "apps"); !strings.Contains(out, "in org acme / space dev as admin") {
		t.Errorf("apps: %s", out)
	}
	if c := w.saved(t, "cf"); c.RefreshToken != "refresh-1" || c.Space.Name != "dev" {
		t.Errorf("the cf CLI's login after it was renewed: %+v", c)
	}
	if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), "de-DE") {
		t.Errorf("%s (%v)", content, err)
	}
	for _, refused := range [][]string{{"rename", "cf", "x"}, {"remove", "cf", "-f"}, {"export"}, {"rename", "x", "cf"}} {
		w.fails(t, "FAILED", append([]string{"context"}, refused...)...)
	}
	write(5)
	w.fails(t, "newer than v8", "apps")
	if out := w.ok(t, "contexts"); !strings.Contains(out, "cannot be used") {
		t.Errorf("contexts: %s", out)
	}
	// A context that cannot be used does not keep the user from another one.
	w.ok(t, "login", "-a", w.api.URL, "-u", "admin", "-p", "x", "--context", "prod")
	w.ok(t, "context", "use", "prod")
	w.fails(t, "newer than v8", "context", "export", "-f")
}

// An exported login belongs to both programs: if one renews it, the other one follows.
func TestExportedLogin(t *testing.T) {
	t.Parallel()
	w, other := loggedIn(t), newFake(t)
	w.api.rotates()
	w.change(t, func(c *config.Config) { c.RefreshToken = "refresh-0" })
	w.ok(t, "context", "export")
	if c := w.saved(t, "cf"); c.API != w.api.URL || c.RefreshToken != "refresh-0" || c.Space.Name != "dev" ||
		c.Links.UAA != w.api.URL {
		t.Fatalf("the cf CLI has %+v", c)
	}
	// Ingot renews it: the cf CLI has the new refresh token, too.
	expire := func(c *config.Config) { c.AccessToken = userToken(-time.Minute) }
	w.change(t, expire)
	w.changeOf(t, "cf", expire)
	w.ok(t, "apps")
	if c := w.saved(t, "cf"); c.RefreshToken != "refresh-1" {
		t.Errorf("the cf CLI has %s after Ingot renewed the login", c.RefreshToken)
	}
	// The cf CLI renews it, here through its context: Ingot takes it over.
	w.change(t, expire)
	w.changeOf(t, "cf", expire)
	w.ok(t, "apps", "--context", "cf")
	w.ok(t, "apps")
	if a, b := w.saved(t, ""), w.saved(t, "cf"); a.RefreshToken != "refresh-2" || b.RefreshToken != "refresh-2" {
		t.Errorf("Ingot has %s and the cf CLI %s, want refresh-2", a.RefreshToken, b.RefreshToken)
	}
	// Another export asks, and leaves the first context its login.
	w.ok(t, "login", "-a", other.URL, "-u", "admin", "-p", "x")
	w.fails(t, "use -f to skip the confirmation", "context", "export")
	w.changeOf(t, "prod", func(c *config.Config) { c.AccessToken, c.RefreshToken = userToken(-time.Minute), "refresh-1" })
	w.ok(t, "context", "export", "-f")
	if c := w.saved(t, "cf"); c.API != other.URL {
		t.Errorf("the cf CLI is logged in to %s", c.API)
	}
	if c := w.saved(t, "prod"); c.RefreshToken != "refresh-2" || c.SharedWithCF {
		t.Errorf("prod has %s, want the refresh token that the cf CLI had", c.RefreshToken)
	}
	w.ok(t, "apps", "--context", "prod")
}

// A context keeps the certificates that it trusts.
func TestCertificatesOfAContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secure := httptest.NewUnstartedServer(w.api)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // refused certificates
	secure.StartTLS()
	t.Cleanup(secure.Close)
	w.api.URL = secure.URL // in the root document, too
	w.file(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})))
	w.file(t, "empty.pem", "nothing")
	w.fails(t, "certificate", "context", "add", "prod", secure.URL)
	w.fails(t, "has no certificates", "context", "add", "prod", secure.URL, "--ca-cert", "empty.pem")
	w.fails(t, "cannot be read", "context", "add", "prod", secure.URL, "--ca-cert", "missing.pem")
	w.ok(t, "context", "add", "prod", secure.URL, "--ca-cert", "ca.pem")
	w.ok(t, "login", "--context", "prod", "-u", "admin", "-p", "x", "-o", "acme", "-s", "dev")
	w.ok(t, "apps")
	if out := w.ok(t, "context", "export"); !strings.Contains(out, "SSL_CERT_FILE") {
		t.Errorf("it does not say that the cf CLI needs the certificates: %s", out)
	}
	w.fails(t, "cannot hold certificates", "login", "--context", "cf", "-a", secure.URL, "--ca-cert", "ca.pem")
}
