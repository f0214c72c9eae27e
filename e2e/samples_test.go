package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
)

// TestSamples builds the sample apps as a newcomer does, pushes them with their
// own manifests, and checks that they do what their READMEs say. Each row of the
// seed's table of endpoints is a sub-test of that name.
func TestSamples(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		t.Cleanup(func() { s.emptySpace(t) })
		parts := []part{
			{"sidecar-app", func(t *testing.T) { sampleSidecar(t, s) }},
			{"java-debug-sidecar", func(t *testing.T) { sampleDebug(t, s) }},
			{"sidecar-java-app", func(t *testing.T) { sampleJava(t, s) }},
			{"sidecar-java-app-without-memory", func(t *testing.T) { sampleJavaWithoutMemory(t, s) }},
			{"database-app-postgres", func(t *testing.T) {
				sampleDatabase(t, s, "postgres",
					`relation "users" does not exist`)
			}},
			{"database-app-mysql", func(t *testing.T) { sampleDatabase(t, s, "mysql", "users' doesn't exist") }},
			{"notification-sender", func(t *testing.T) { sampleSender(t, s) }},
			{"sidecars", func(t *testing.T) { sampleSidecars(t, s) }},
		}
		if s.options.Engine == "process" { // the same program on both
			parts = append(parts, part{"login-proxy", func(t *testing.T) { sampleLogin(t, s) }})
		}
		together(t, parts...)
	})
}

// row is a row of the seed's table.
func row(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	if !t.Run(name, test) {
		t.FailNow() // the next rows depend on it
	}
}

// buildSamples runs `make samples`.
var buildSamples = sync.OnceValues(func() (string, error) {
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	if out, err := exec.Command(filepath.Join(root, "scripts", "samples")).CombinedOutput(); err != nil {
		return "", fmt.Errorf("scripts/samples: %w\n%s", err, out)
	}
	return filepath.Join(root, "samples"), nil
})

// sampleManifest returns the path of a sample's manifest. Where apps share the
// ports of this machine it is a copy with another port, because the original one
// may be in use.
func (s *site) sampleManifest(t *testing.T, name, file, port string) (path, usedPort string) {
	t.Helper()
	dir, err := buildSamples()
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, name)
	path = filepath.Join(dir, file)
	if _, err := os.Stat(filepath.Join(dir, "bin")); err != nil {
		t.Skipf("scripts/samples did not build %s: javac, jar or zip is missing", name)
	}
	if s.options.Engine == "container" || port == "" {
		return path, port
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	usedPort = fmt.Sprint(s.sidecarPort(t))
	changed := strings.Replace(string(text), "_PORT: "+port, "_PORT: "+usedPort, 1)
	moved := strings.Replace(changed, "path: bin", "path: "+filepath.Join(dir, "bin"), 1)
	if changed == string(text) || moved == changed {
		t.Fatalf("%s has no port %s or no path bin:\n%s", path, port, text)
	}
	return write(t, "manifest.yml", moved), usedPort
}

// sampleSidecar follows the seed's procedure of a push with a sidecar.
func sampleSidecar(t *testing.T, s *site) {
	home := s.admin(t)
	manifest, port := s.sampleManifest(t, "sidecar-app", "manifest.yml", "21082")
	contains(t, cfOK(t, home, "create-app", "sidecar-app"), "OK")
	contains(t, cfOK(t, home, "apply-manifest", "-f", manifest), "OK")
	contains(t, columns(cfOK(t, home, "push", "-f", manifest)), "sidecars: config-server", "#0 running")
	row(t, "Sample app with a sidecar: GET /config", func(t *testing.T) { sampleConfig(t, s, "sidecar-app") })
	row(t, "Config sidecar: GET /config/", func(t *testing.T) {
		contains(t, cfOK(t, home, "ssh", "sidecar-app", "-c", "curl --silent --fail http://localhost:"+port+"/config/"),
			`"scope"`, `"password"`)
		at := s.stats(t, guid(t, home, "sidecar-app"))[0]
		// An address at which every server that listens on all addresses responds;
		// the app's own port is the proof.
		outside := "127.0.0.2"
		if s.options.Engine == "container" {
			outside = at.Internal
		}
		own := strings.TrimSpace(cfOK(t, home, "ssh", "sidecar-app", "-c", "echo $PORT"))
		c, err := net.Dial("tcp", net.JoinHostPort(outside, own))
		if err != nil {
			t.Fatalf("the app is not reached by %s:%s, so this says nothing about its sidecar: %v", outside, own, err)
		}
		c.Close()
		if c, err := net.Dial("tcp", net.JoinHostPort(outside, port)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the sidecar is reached by %s:%s: %v", outside, port, err)
			if err == nil {
				c.Close()
			}
		}
	})
}

// sampleConfig requests the sidecar's data from an app.
func sampleConfig(t *testing.T, s *site, app string) {
	t.Helper()
	var got map[string]string
	s.reaches(t, app, "/config", http.StatusOK).into(t, &got)
	if len(got) != 2 || got["scope"] == "" || got["password"] == "" {
		t.Errorf("/config answers %v, want a scope and a password", got)
	}
}

func sampleJava(t *testing.T, s *site) {
	home := s.admin(t)
	manifest, _ := s.sampleManifest(t, "sidecar-java-app", "manifest.yml", "21083")
	contains(t, columns(cfOK(t, home, "push", "-f", manifest)), "sidecars: config-server", "#0 running")
	row(t, "Sample app with a sidecar, in Java: GET /config",
		func(t *testing.T) { sampleConfig(t, s, "sidecar-java-app") })
	if s.options.Engine != "container" {
		return // members_test.go has the refusal
	}
	// The memory of the sidecar is enforced, and what is left is enough for Java.
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	enforced := strings.Replace(string(text), "    memory: 256MB", "    memory: 256MB\n    memory-enforced: true", 1)
	manifest = filepath.Join(filepath.Dir(manifest), "manifest-enforced.yml") // its paths begin there
	if err := os.WriteFile(manifest, []byte(enforced), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, columns(cfOK(t, home, "push", "-f", manifest)), "sidecars: config-server", "#0 running")
	sampleConfig(t, s, "sidecar-java-app")
	m := s.members(t, guid(t, home, "sidecar-java-app"))
	if len(m) != 2 || m[0].MemQuota != 512<<20 || m[1].MemQuota != 256<<20 {
		t.Errorf("the members are %+v, want 512 MB for Java and 256 MB for the sidecar", m)
	}
}

// sampleJavaWithoutMemory pushes an app that cannot start, and checks the reason.
func sampleJavaWithoutMemory(t *testing.T, s *site) {
	home := s.admin(t)
	manifest, _ := s.sampleManifest(t, "sidecar-java-app", "manifest-without-memory.yml", "21083")
	out, code := cf(t, home, "push", "-f", manifest)
	if code != 1 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	contains(t, out, `The sidecar "config-server" of web has no memory`, "Set `memory` of the sidecar", "FAILED")
	s.get(t, "sidecar-java-app-without-memory", "/").want(t, http.StatusNotFound)
}

// sampleDebug maps a route to the sidecar of a Java app, and protects it.
func sampleDebug(t *testing.T, s *site) {
	home := s.admin(t)
	manifest, port := s.sampleManifest(t, "java-debug-sidecar", "manifest.yml", "21090")
	contains(t, columns(cfOK(t, home, "push", "-f", manifest)), "sidecars: debug", "#0 running")
	contains(t, cfOK(t, home, "create-route", "apps.localhost", "--hostname", "java-debug"), "OK")
	var routes struct{ Resources []struct{ GUID string } }
	if err := json.Unmarshal([]byte(cfOK(t, home, "curl", "/v3/routes?hosts=java-debug")), &routes); err != nil ||
		len(routes.Resources) != 1 {
		t.Fatalf("routes are %+v, %v, want 1", routes, err)
	}
	cfOK(t, home, "curl", "-f", "-X", "PATCH", "/v3/routes/"+routes.Resources[0].GUID+"/destinations", "-d",
		fmt.Sprintf(`{"destinations": [{"app": {"guid": %q, "process": {"type": "web"}}, "port": %s, "protocol": "http1"}]}`,
			guid(t, home, "java-debug-app"), port))
	if r := s.get(t, "java-debug", "/threaddump"); r.Status == http.StatusOK {
		t.Errorf("the sidecar is reached before the app is restarted: %s", r)
	}
	contains(t, columns(cfOK(t, home, "restart", "java-debug-app")), "#0 running")
	dumps := func() int {
		return strings.Count(cfOK(t, home, "logs", "java-debug-app", "--recent"), "[APP/PROC/WEB/0] OUT Full thread dump")
	}
	row(t, "Debug sidecar (Java): GET /threaddump", func(t *testing.T) {
		// An instance is healthy when its port is open, which a Java server does before its threads run. The dump has
		// them once the app has answered.
		s.reaches(t, "java-debug-app", "/", http.StatusOK)
		contains(t, string(s.reaches(t, "java-debug", "/threaddump", http.StatusOK).Body),
			"Sent signal 3 (SIGQUIT) to the Java process")
		var recent string
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the log of the app:\n%s", recent)
			}
		})
		testkit.Eventually(t, "the whole thread dump is in the log", func() bool {
			recent = cfOK(t, home, "logs", "java-debug-app", "--recent")
			return strings.Contains(recent, "[APP/PROC/WEB/0] OUT Full thread dump") && strings.Contains(recent, `"HTTP-Dispatcher"`) &&
				strings.Contains(recent, "[APP/PROC/WEB/SIDECAR/DEBUG/0]")
		})
		s.get(t, "java-debug-app", "/").want(t, http.StatusOK) // it still runs
	})
	row(t, "a route service asks for a password", func(t *testing.T) { sampleRouteService(t, s, home, dumps) })
}

// sampleRouteService binds the route service of the samples to the route of the
// debug sidecar.
func sampleRouteService(t *testing.T, s *site, home string, dumps func() int) {
	if s.options.Engine == "container" {
		t.Skip("the route service sends requests on to the router, which listens on the loopback of this machine here; a " +
			"container has its own")
	}
	cfOK(t, home, "create-user-provided-service", "auth", "-r", "https://auth-route-service.apps.localhost")
	manifest, _ := s.sampleManifest(t, "auth-route-service", "manifest.yml", "")
	cfOK(t, home, "push", "-f", manifest, "--var", "username=ann", "--var", "password=open sesame", "--no-start")
	cfOK(t, home, "set-env", "auth-route-service", "ROUTER_ADDRESS", strings.TrimPrefix(s.API, "http://"))
	contains(t, columns(cfOK(t, home, "start", "auth-route-service")), "#0 running")
	contains(t, cfOK(t, home, "bind-route-service", "apps.localhost", "--hostname", "java-debug", "auth"), "OK")
	s.reaches(t, "java-debug", "/threaddump", http.StatusUnauthorized)
	before := dumps()
	host := header{"Host", "java-debug.apps.localhost"}
	s.call(t, http.MethodGet, s.API+"/threaddump", "", nil, host, basic("ann", "wrong")).want(t, http.StatusUnauthorized)
	if after := dumps(); after != before {
		t.Errorf("%d thread dumps, then %d without a password", before, after)
	}
	contains(t, string(s.call(t, http.MethodGet, s.API+"/threaddump", "", nil, host, basic("ann", "open sesame")).
		want(t, http.StatusOK).Body), "Sent signal 3")
	testkit.Eventually(t, "the thread dump is in the log", func() bool { return dumps() > before })
	cfOK(t, home, "unbind-route-service", "apps.localhost", "--hostname", "java-debug", "auth", "-f")
	cfOK(t, home, "delete-service", "auth", "-f")
}

// sampleDatabase binds a database of an offering, and uses all functions of the
// app.
func sampleDatabase(t *testing.T, s *site, offering, notMigrated string) {
	home := s.admin(t)
	manifest, _ := s.sampleManifest(t, "database-app", "manifest.yml", "")
	app := "database-app-" + offering
	cfOK(t, home, "push", app, "-f", manifest)
	type failure struct {
		Error string
		Trace []string
	}
	row(t, "without a database", func(t *testing.T) {
		var f failure
		s.reaches(t, app, "/users", http.StatusInternalServerError).into(t, &f)
		if !strings.Contains(f.Error, "no database is bound") || len(f.Trace) == 0 {
			t.Errorf("/users: %+v", f)
		}
	})
	contains(t, cfOK(t, home, "marketplace"), offering)
	instance := offering + "-of-the-samples"
	cfOK(t, home, "create-service", offering, "small", instance, "--wait")
	contains(t, cfOK(t, home, "bind-service", app, instance, "--wait"), "restage")
	contains(t, columns(cfOK(t, home, "restage", app)), "#0 running")

	body := func(path string, status int) string {
		t.Helper()
		return strings.Join(strings.Fields(string(s.reaches(t, app, path, status).Body)), "")
	}
	type users struct {
		Amount int                 `json:"amount"`
		Added  []map[string]string `json:"users added"`
		Count  int                 `json:"count"`
		Users  []map[string]string `json:"users"`
	}
	row(t, "Database sample app: GET /users before GET /migrate", func(t *testing.T) {
		var f failure
		s.reaches(t, app, "/users", http.StatusInternalServerError).into(t, &f)
		if !strings.Contains(f.Error, notMigrated) || len(f.Trace) == 0 {
			t.Errorf("/users: %+v", f)
		}
	})
	row(t, "Database sample app: GET /migrate", func(t *testing.T) {
		if got := body("/migrate", http.StatusOK); got != `{"migrated":true}` {
			t.Errorf("/migrate: %s", got)
		}
	})
	var added, listed users
	row(t, "Database sample app: GET /users/add/{amount}", func(t *testing.T) {
		s.reaches(t, app, "/users/add/3", http.StatusOK).into(t, &added)
		if added.Amount != 3 || len(added.Added) != 3 {
			t.Errorf("/users/add/3: %+v", added)
		}
		for _, u := range added.Added {
			for _, field := range []string{"firstName", "lastName", "birthday", "email", "password"} {
				if u[field] == "" || len(u) != 5 {
					t.Errorf("a user without %s: %v", field, u)
				}
			}
		}
		contains(t, body("/users/add/none", http.StatusBadRequest), `"error":`, `"trace":[`)
	})
	row(t, "Database sample app: GET /users", func(t *testing.T) {
		s.reaches(t, app, "/users", http.StatusOK).into(t, &listed)
		if listed.Count != 3 || fmt.Sprint(listed.Users) != fmt.Sprint(added.Added) {
			t.Errorf("/users: %+v, added were %+v", listed, added)
		}
	})
	row(t, "rotate-credentials", func(t *testing.T) { rotatesWhileUsed(t, s, app, instance) })
	row(t, "Database sample app: GET /users/delete", func(t *testing.T) {
		if got := body("/users/delete", http.StatusOK); got != `{"users":[]}` {
			t.Errorf("/users/delete: %s", got)
		}
		if got := body("/users", http.StatusOK); got != `{"count":0,"users":[]}` {
			t.Errorf("/users: %s", got)
		}
	})
	cfOK(t, home, "unbind-service", app, instance, "--wait")
	cfOK(t, home, "delete-service", instance, "-f", "--wait")
}

// sampleSender sends to a user with the page of the app and a bound service, and
// with the program and a service key, and finds both mails in the mailbox. The
// credentials are deleted with the binding and the key.
func sampleSender(t *testing.T, s *site) {
	home := s.admin(t)
	user := s.createUser(t, s.adminToken(t), "reader", "a secret of the reader")
	contains(t, columns(cfOK(t, home, "marketplace")), "notifications default, critical")
	cfOK(t, home, "create-service", "notifications", "default", "mail", "--wait")
	manifest, _ := s.sampleManifest(t, "notification-sender", "manifest.yml", "")
	contains(t, columns(cfOK(t, home, "push", "-f", manifest, "--var", "page_password=open")), "#0 running")
	host := header{"Host", "notification-sender.apps.localhost"}
	form := url.Values{"to": {"user:" + user}, "subject": {"By the page"}, "text": {"One & two"}}
	s.call(t, http.MethodPost, s.API+"/send", "", form, host).want(t, http.StatusUnauthorized)
	contains(t, string(s.call(t, http.MethodPost, s.API+"/send", "", form, host, basic("sender", "open")).
		want(t, http.StatusOK).Body),
		"Registered the kind sample-news", "Created the template", "Associated the template", "Sent to user:"+user+
			": 1 notification")

	cfOK(t, home, "create-service-key", "mail", "for-me", "--wait")
	key := s.serviceKey(t, home, "mail", "for-me")
	dir, err := buildSamples()
	if err != nil {
		t.Fatal(err)
	}
	send := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "notification-sender", "bin", "notification-sender"),
			"send", "--to", "user:"+user, "--subject", "By the program", "--text", "Three")
		cmd.Env = []string{
			"NOTIFICATIONS_URL=" + key["url"].(string), "AUTH_URL=" + key["auth_url"].(string),
			"CLIENT_ID=" + key["client_id"].(string), "CLIENT_SECRET=" + key["client_secret"].(string),
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := send()
	if err != nil {
		t.Fatalf("sending: %v\n%s", err, out)
	}
	contains(t, out, "Sent to user:"+user+": 1 notification")
	for _, subject := range []string{"[sample] By the page", "[sample] By the program"} {
		testkit.Eventually(t, "mail "+subject+" is caught", func() bool {
			text := string(s.call(t, http.MethodGet, s.Admin+"/mailbox/messages", "", nil).want(t, http.StatusOK).Body)
			return strings.Contains(text, "reader@example.org") && strings.Contains(text, subject)
		})
	}
	// A webhook to a forbidden address is rejected at once; one to an app is not,
	// although its name may resolve to this machine.
	token := s.askToken(t, key["client_id"].(string), key["client_secret"].(string),
		url.Values{"grant_type": {"client_credentials"}}).want(t, http.StatusOK).object(t)["access_token"].(string)
	contains(t, string(s.call(t, http.MethodPost, s.Notifications+"/webhooks", token,
		map[string]any{"url": "http://127.0.0.1:9/hook"}).want(t, http.StatusUnprocessableEntity).Body),
		"--allow-networks")
	s.call(t, http.MethodPost, s.Notifications+"/webhooks", token,
		map[string]any{"url": "http://notification-sender.apps.localhost/hook"}).want(t, http.StatusCreated)
	cfOK(t, home, "delete-service-key", "mail", "for-me", "-f", "--wait")
	if out, err := send(); err == nil {
		t.Errorf("the key works after it was deleted:\n%s", out)
	}
	cfOK(t, home, "unbind-service", "notification-sender", "mail", "--wait")
	contains(t, string(s.call(t, http.MethodPost, s.API+"/send", "", form, host, basic("sender", "open")).Body), "401")
	cfOK(t, home, "delete-service", "mail", "-f", "--wait")
}
