package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// serviceKey returns the credentials of a service key.
func (s *site) serviceKey(t *testing.T, home, instance, key string) map[string]any {
	t.Helper()
	out := cfOK(t, home, "service-key", instance, key)
	var shown struct {
		Credentials map[string]any `json:"credentials"`
	}
	_, text, _ := strings.Cut(out, "{")
	if err := json.Unmarshal([]byte("{"+text), &shown); err != nil {
		t.Fatalf("service key is no JSON: %v\n%s", err, out)
	}
	return shown.Credentials
}

// TestInside checks what an app can reach: the API, the notification service and
// other apps by the addresses in its variables and, in a container, by name; but
// not the operator's port. It also uses a service key of the app's space from this
// machine and through ssh.
func TestInside(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		t.Cleanup(func() { s.emptySpace(t) })
		home := s.admin(t)
		dir := t.TempDir()
		for name, text := range map[string]string{"Staticfile": "", "index.html": "hello from the other\n"} {
			if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, app := range []string{"other", "caller"} {
			contains(t, columns(cfOK(t, home, "push", app, "-p", dir, "-m", "128M")), "#0 running")
		}
		contains(t, columns(cfOK(t, home, "domains")), "apps.internal shared true")
		inside := func(script string) string { return cfOK(t, home, "ssh", "caller", "-c", script) }
		contains(t, inside(`curl -sS "$INGOT_API_URL/v3/info"`), `"name"`)
		contains(t, inside(`curl -sS "$(printf %s "$VCAP_APPLICATION" | sed 's/.*"cf_api":"\([^"]*\)".*/\1/')"/v3/info`),
			`"name"`)
		contains(t, inside(`curl -sS "$INGOT_AUTH_URL/token_keys"`), `"keys"`)
		contains(t, inside(`curl -sS "$INGOT_NOTIFICATIONS_URL/info"`), `version`)
		contains(t, inside(`curl -sS -H 'Host: other.apps.localhost' "http://$INGOT_ROUTER/"`), "hello from the other")
		if s.options.Engine == "container" {
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.API, "http://"))
			address := "http://other.apps.localhost:" + port + "/"
			for program, script := range map[string]string{
				"python3": `python3 -c 'import urllib.request; print(urllib.request.urlopen("` + address + `").read().decode())'`,
				"node":    `node -e 'fetch("` + address + `").then(r => r.text()).then(console.log)'`,
				"curl":    `curl -sS --connect-to "::$INGOT_ROUTER" ` + address,
			} {
				if _, err := exec.LookPath(program); err == nil {
					contains(t, inside(script), "hello from the other")
				}
			}
			for _, name := range []string{"api", "uaa", "login", "log-cache", "notifications"} {
				contains(t, inside("getent ahostsv4 "+name+".localhost"),
					strings.TrimSpace(inside(`printf %s "${INGOT_ROUTER%:*}"`)))
			}
			for _, address := range []string{strings.TrimPrefix(s.Admin, "http://"), s.SSH} {
				_, port, err := net.SplitHostPort(address)
				if err != nil {
					t.Fatal(err)
				}
				contains(t, inside(fmt.Sprintf(`(exec 3<>"/dev/tcp/${INGOT_ROUTER%%:*}/%s") 2>/dev/null && echo reached || echo closed`, port)), "closed")
			}
		}
		t.Run("service key", func(t *testing.T) { keyFromOutside(t, s, home) })
	})
}

// keyFromOutside uses a service key with psql, from this machine and through an
// app that is not bound to the service.
func keyFromOutside(t *testing.T, s *site, home string) {
	psql, err := exec.LookPath("psql")
	if err != nil || !strings.Contains(cfOK(t, home, "marketplace"), "postgres") {
		t.Skip("PostgreSQL is not installed")
	}
	if s.options.Engine == "kubernetes" {
		t.Skip("Pods do not reach the bundled database servers, which listen on loopback")
	}
	cfOK(t, home, "create-service", "postgres", "small", "outside-db", "--wait")
	cfOK(t, home, "create-service-key", "outside-db", "outside", "--wait")
	key := s.serviceKey(t, home, "outside-db", "outside")
	uri := key["uri"].(string)
	ask := func(uri string) (string, error) {
		out, err := exec.CommandContext(t.Context(), psql, uri, "-tAc", "SELECT 41 + 1").CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := ask(uri); err != nil || out != "42" {
		t.Errorf("from this machine: %s, %v", out, err)
	}
	remote := fmt.Sprintf("%v:%v", key["host"], key["port"])
	if s.options.Engine == "container" {
		out, _ := cf(t, home, "ssh", "caller", "-c", fmt.Sprintf(`exec 3<>/dev/tcp/%v/%v && echo reached`, key["host"],
			key["port"]))
		if strings.Contains(out, "reached\n") {
			t.Error("an app reaches a service that it is not bound to")
		}
	}
	free, err := net.Listen("tcp", loopback()+":0")
	if err != nil {
		t.Fatal(err)
	}
	local := free.Addr().String()
	free.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := cfCommand(ctx, t, home, []string{"ssh", "caller", "-N", "-L", local + ":" + remote})
	out := newOutput()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	testkit.Eventually(t, "psql works through the tunnel", func() bool {
		select {
		case err := <-done:
			t.Fatalf("cf ssh -L ended: %v\n%s", err, out)
		default:
		}
		text, err := ask(strings.Replace(uri, remote, local, 1))
		return err == nil && text == "42"
	})
	cancel()
	<-done
	cfOK(t, home, "delete-service-key", "outside-db", "outside", "-f", "--wait")
	cfOK(t, home, "delete-service", "outside-db", "-f", "--wait")
}
