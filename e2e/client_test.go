package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"ingot/internal/base/testkit"
)

// tool is a command-line client: Ingot's, or the real cf. Both have the commands
// of the seed.
type tool struct {
	name string
	site *site
	home string
	cmd  func(ctx context.Context, args ...string) *exec.Cmd
}

// tools returns both, logged in and with the demo's space as their target.
// Ingot's own client does that by itself.
func (s *site) tools(t testing.TB) []*tool {
	t.Helper()
	ours := &tool{name: "ingot", site: s, home: t.TempDir()}
	ours.cmd = func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program(t), args...)
		cmd.Dir = ours.home
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + ours.home, "INGOT_DATA_DIR=" + s.Dir, "TZ=UTC"}
		return cmd
	}
	real := &tool{name: "cf", site: s, home: s.admin(t)}
	real.cmd = func(ctx context.Context, args ...string) *exec.Cmd { return cfCommand(ctx, t, real.home, args) }
	return []*tool{ours, real}
}

func (c *tool) run(t testing.TB, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := c.cmd(ctx, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %s: %v\n%s", c.name, strings.Join(args, " "), err, &out)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func (c *tool) ok(t testing.TB, args ...string) string {
	t.Helper()
	out, code := c.run(t, args...)
	if code != 0 {
		t.Fatalf("%s %s: exit code %d\n%s", c.name, strings.Join(args, " "), code, out)
	}
	return out
}

// TestCommands runs every row of the seed's table of command-line operations
// with our client and with the real one.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	var parts []part
	for _, c := range s.tools(t) {
		parts = append(parts, part{c.name, func(t *testing.T) { commandRows(t, s, c) }})
	}
	together(t, parts...)
}

func commandRows(t *testing.T, s *site, c *tool) {
	app := "row-" + c.name
	manifest := filepath.Join(t.TempDir(), "manifest.yml")
	text := fmt.Sprintf("applications:\n- name: %s\n  buildpacks: [binary_buildpack]\n  memory: 64M\n  disk_quota: "+
		"64M\n  command: ./probe\n  env: {GREETING: hello}\n"+
		"  sidecars:\n  - name: helper\n    process_types: [web]\n    command: ./probe beside %s-helper %d\n   "+
		" memory: 16M\n", app, app, s.sidecarPort(t))
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	row := func(name string, test func(t *testing.T)) {
		if !t.Run(name, test) {
			t.FailNow() // the next row depends on it
		}
	}
	row("create an app", func(t *testing.T) {
		c.ok(t, "create-app", app)
		contains(t, columns(c.ok(t, "apps")), app+" stopped web:0/1")
		c.ok(t, "create-app", app) // a repetition succeeds
	})
	row("apply a manifest", func(t *testing.T) {
		c.ok(t, "apply-manifest", "-f", manifest)
		contains(t, c.ok(t, "env", app), "GREETING", "hello")
	})
	row("push an app", func(t *testing.T) {
		contains(t, columns(c.ok(t, "push", app, "-f", manifest, "-m", "96M", "-p", probe(t))), "name: "+app,
			"requested state: started", "sidecars: helper", "#0 running", "of 96M")
		contains(t, string(s.reaches(t, app, "/", http.StatusOK).Body), "probe 0")
	})
	row("restart an app", func(t *testing.T) {
		c.ok(t, "set-env", app, "GREETING", "good morning")
		contains(t, columns(c.ok(t, "restart", app)), "#0 running")
		if got := s.environment(t, app)["GREETING"]; got != "good morning" {
			t.Errorf("GREETING=%q after a restart", got)
		}
	})
	row("restage an app", func(t *testing.T) {
		contains(t, columns(c.ok(t, "restage", app)), "#0 running")
		s.reaches(t, app, "/", http.StatusOK)
	})
	row("stream logs", func(t *testing.T) { rowLogs(t, s, c, app) })
	row("send a raw API request", func(t *testing.T) { rowCurl(t, s, c, app) })
	row("list marketplace offerings, create a service instance, bind a service",
		func(t *testing.T) { rowServices(t, s, c, app) })
	row("open a shell in the container", func(t *testing.T) { rowShell(t, s, c, app) })
	row("scale", func(t *testing.T) {
		// More instances cannot share the sidecar's port on this engine.
		contains(t, columns(c.ok(t, "scale", app, "-i", "1", "-m", "112M", "-f")), "instances: 1/1", "of 112M")
		contains(t, columns(c.ok(t, "scale", app)), "instances: 1/1")
	})
	row("delete", func(t *testing.T) {
		c.ok(t, "delete", app, "-f", "-r")
		s.reaches(t, app, "/", http.StatusNotFound)
	})
}

func rowLogs(t *testing.T, s *site, c *tool, app string) {
	// The app accepts requests, but the sidecar may not have written anything yet.
	id := strings.TrimSpace(c.ok(t, "app", app, "--guid"))
	s.logged(t, id, "APP/PROC/WEB", "")
	s.logged(t, id, "APP/PROC/WEB/SIDECAR/HELPER", app+"-helper is here")
	contains(t, c.ok(t, "logs", app, "--recent"), "[APP/PROC/WEB/0] OUT", "[APP/PROC/WEB/SIDECAR/HELPER/0] OUT")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := c.cmd(ctx, "logs", app)
	live := newOutput()
	cmd.Stdout, cmd.Stderr = live, live
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	live.await(t, "logs for app")
	// It may not be reading yet: write lines until one arrives.
	testkit.Eventually(t, "a line of the access log is shown", func() bool {
		s.get(t, app, "/live").want(t, http.StatusOK)
		return strings.Contains(live.String(), "/live")
	})
	if c.name != "ingot" {
		return
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("ended with %v\n%s", err, live)
	}
	filtered := c.ok(t, "logs", app, "--recent", "--sidecar", "helper", "--process", "web", "--no-router")
	contains(t, filtered, "[APP/PROC/WEB/SIDECAR/HELPER/0]")
	if strings.Contains(filtered, "[APP/PROC/WEB/0]") || strings.Contains(filtered, "RTR") {
		t.Errorf("lines of others:\n%s", filtered)
	}
}

// rowCurl sends the call of the seed that replaces a route's destinations.
func rowCurl(t *testing.T, s *site, c *tool, app string) {
	id := strings.TrimSpace(c.ok(t, "app", app, "--guid"))
	var routes struct{ Resources []struct{ GUID string } }
	if err := json.Unmarshal([]byte(c.ok(t, "curl", "/v3/apps/"+id+"/routes")), &routes); err != nil ||
		len(routes.Resources) != 1 {
		t.Fatalf("routes are %+v, %v, want 1", routes, err)
	}
	body := fmt.Sprintf(`{"destinations":[{"app":{"guid":%q,"process":{"type":"web"}},"protocol":"http1"}]}`, id)
	out := c.ok(t, "curl", "-X", "PATCH", "/v3/routes/"+routes.Resources[0].GUID+"/destinations", "-d", body)
	contains(t, out, `"destinations"`, id)
	s.reaches(t, app, "/", http.StatusOK)
}

func rowServices(t *testing.T, s *site, c *tool, app string) {
	var offerings, plans struct{ Resources []struct{ GUID, Name string } }
	token := s.adminToken(t)
	s.call(t, http.MethodGet, "/v3/service_offerings", token, nil).into(t, &offerings)
	if len(offerings.Resources) == 0 {
		t.Fatal("the marketplace is empty: install PostgreSQL, MariaDB or Redis (make setup-test)")
	}
	o := offerings.Resources[0]
	s.call(t, http.MethodGet, "/v3/service_plans?service_offering_guids="+o.GUID, token, nil).into(t, &plans)
	contains(t, c.ok(t, "marketplace"), o.Name)
	instance := "db-" + c.name
	c.ok(t, "create-service", o.Name, plans.Resources[0].Name, instance, "--wait")
	contains(t, c.ok(t, "services"), instance)
	contains(t, c.ok(t, "service", instance), "create succeeded")
	c.ok(t, "bind-service", app, instance)
	c.ok(t, "restage", app)
	contains(t, s.environment(t, app)["VCAP_SERVICES"], instance)
	c.ok(t, "create-service-key", instance, "key", "--wait")
	contains(t, c.ok(t, "service-key", instance, "key"), "{")
	c.ok(t, "unbind-service", app, instance)
	keys := "/v3/service_credential_bindings?type=key&service_instance_guids=" +
		strings.TrimSpace(c.ok(t, "service", instance, "--guid"))
	for _, key := range s.list(t, token, keys) {
		c.ok(t, "curl", "-X", "DELETE", "/v3/service_credential_bindings/"+key["guid"].(string))
	}
	testkit.Eventually(t, "the key is deleted", func() bool { return len(s.list(t, token, keys)) == 0 })
	c.ok(t, "delete-service", instance, "-f", "--wait")
	if strings.Contains(c.ok(t, "services"), instance) {
		t.Errorf("%s is there after it was deleted", instance)
	}
}

func rowShell(t *testing.T, s *site, c *tool, app string) {
	contains(t, c.ok(t, "ssh", app, "-c", "echo it is $((40+2))"), "it is 42")
	if _, code := c.run(t, "ssh", app, "-c", "exit 7"); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	// A shell on a terminal.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := c.cmd(ctx, "ssh", app)
	cmd.Env = append(cmd.Env, "TERM=dumb")
	screen, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	seen := newOutput()
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := screen.Read(buffer)
			_, _ = seen.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	if _, err := screen.WriteString("echo sum $((1000+337)); tty; exit 3\n"); err != nil {
		t.Fatal(err)
	}
	seen.await(t, "sum 1337")
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("%v, want exit code 3\n%s", err, seen)
	}
}

// TestClientAlone tests what only Ingot's client does: it finds the server by
// itself, prints JSON, works under the name cf, and explains errors.
func TestClientAlone(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	ours := s.tools(t)[0]
	out := ours.ok(t, "target")
	contains(t, out, "Using the server on this machine", s.API, "demo", "dev")
	testkit.CheckMode(t, filepath.Join(ours.home, ".config", "ingot", "config.json"), 0o600)
	var pushed struct {
		Apps []struct {
			Name      string
			Processes []struct{ Running int }
		}
	}
	cmd := ours.cmd(t.Context(), pushProbe(t, "alone", "--json")...)
	text, err := cmd.Output()
	if err != nil || json.Unmarshal(text, &pushed) != nil || len(pushed.Apps) != 1 ||
		pushed.Apps[0].Processes[0].Running != 1 {
		t.Fatalf("push --json: %v, want one app with one running instance\n%s", err, text)
	}
	if out, code := ours.run(t, "app", "alnoe"); code != 1 || !strings.Contains(out, "did you mean 'alone'?") {
		t.Errorf("exit code %d, want 1 and a similar name\n%s", code, out)
	}
	if out, code := ours.run(t, "psuh"); code != 2 || !strings.Contains(out, "did you mean push?") {
		t.Errorf("exit code %d, want 2 and a similar command\n%s", code, out)
	}
	contains(t, ours.ok(t, "doctor"), "engine", "ingot-init", s.API)
	contains(t, ours.ok(t, "docs"), "tour", "troubleshooting")
	contains(t, ours.ok(t, "docs", "wildcard", "certificate"), "tls#wildcard-certificates")
	link := filepath.Join(ours.home, "cf")
	if err := os.Symlink(program(t), link); err != nil {
		t.Fatal(err)
	}
	asCF := exec.CommandContext(t.Context(), link, "apps")
	asCF.Env = ours.cmd(t.Context()).Env
	if text, err := asCF.CombinedOutput(); err != nil || !strings.Contains(columns(string(text)),
		"alone started web:1/1") {
		t.Errorf("apps as cf: %v, want alone started\n%s", err, text)
	}
	// It reports that the server is not running.
	contains(t, ours.ok(t, "delete", "alone", "-f", "-r"), "OK")
	contains(t, ours.ok(t, "apps"), "No apps found")
}
