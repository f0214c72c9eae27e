package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestNetworking uses the commands for security groups, network policies and
// internal routes of the real cf client, and tries from inside what they allow.
func TestNetworking(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "container"})
	home := s.admin(t)
	groupCommands(t, home)
	dir := t.TempDir()
	for name, text := range map[string]string{"Staticfile": "", "index.html": "hello from the back\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, app := range []string{"front", "back"} {
		cfOK(t, home, "push", app, "-p", dir, "-m", "128M")
	}
	front := func(script string) string { return cfOK(t, home, "ssh", "front", "-c", script) }
	contains(t, front("cat /etc/lsb-release"), "DISTRIB_ID=", "DISTRIB_RELEASE=")
	groupsHold(t, home, front)
	policiesHold(t, s, home, front)
}

// rulesFile writes the rules of a security group to a file.
func rulesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.json")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func groupCommands(t *testing.T, home string) {
	t.Helper()
	contains(t, columns(cfOK(t, home, "security-groups")), "public_networks <all> <all> running",
		"dns <all> <all> staging")
	contains(t, columns(cfOK(t, home, "running-security-groups")), "public_networks", "dns")
	contains(t, columns(cfOK(t, home, "space", "dev")), "running security groups: public_networks, dns",
		"staging security groups: public_networks, dns")
	rules := rulesFile(t, `[{"protocol":"tcp","destination":"10.7.0.0/24","ports":"5432","description":"database","log":true}]`)
	contains(t, cfOK(t, home, "create-security-group", "db", rules), "OK")
	contains(t, cfOK(t, home, "create-security-group", "db", rules), "already exists")
	cfFails(t, home, "Rules[0]: ports are required for protocols of type TCP and UDP", "create-security-group", "wrong",
		rulesFile(t, `[{"protocol":"tcp","destination":"10.7.0.0/24"}]`))
	contains(t, cfOK(t, home, "security-group", "db"), `"destination": "10.7.0.0/24"`, `"description": "database"`)
	cfOK(t, home, "bind-security-group", "db", "demo", "--space", "dev")
	cfOK(t, home, "bind-security-group", "db", "demo", "--space", "dev", "--lifecycle", "staging")
	contains(t, columns(cfOK(t, home, "security-groups")), "db demo dev running", "db demo dev staging")
	contains(t, columns(cfOK(t, home, "space", "dev", "--security-group-rules")),
		"db 10.7.0.0/24 5432 tcp running database")
	cfOK(t, home, "update-security-group", "db", rulesFile(t, `[{"protocol":"all","destination":"10.8.0.1-10.8.0.9"}]`))
	contains(t, cfOK(t, home, "security-group", "db"), "10.8.0.1-10.8.0.9")
	cfOK(t, home, "unbind-security-group", "db", "demo", "dev", "--lifecycle", "staging")
	contains(t, cfOK(t, home, "unbind-security-group", "db", "demo", "dev", "--lifecycle", "staging"),
		"not bound to space dev for lifecycle phase 'staging'")
	for _, lifecycle := range []string{"running", "staging"} {
		cfOK(t, home, "bind-"+lifecycle+"-security-group", "db")
		contains(t, columns(cfOK(t, home, lifecycle+"-security-groups")), "db")
		cfOK(t, home, "unbind-"+lifecycle+"-security-group", "db")
		if out := columns(cfOK(t, home, lifecycle+"-security-groups")); strings.Contains(out, "db") {
			t.Errorf("after it was unbound:\n%s", out)
		}
	}
	cfOK(t, home, "delete-security-group", "db", "-f")
	contains(t, cfOK(t, home, "delete-security-group", "db", "-f"), "does not exist")
}

// groupsHold opens a port of this machine to the running instances of a space.
func groupsHold(t *testing.T, home string, front func(string) string) {
	t.Helper()
	gateway := strings.TrimSpace(front(`printf %s "${INGOT_ROUTER%:*}"`))
	l, err := net.Listen("tcp", net.JoinHostPort(gateway, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	expect := func(when, want string) {
		t.Helper()
		if got := strings.TrimSpace(front(fmt.Sprintf(`(exec 3<>/dev/tcp/%s/%s) 2>/dev/null && echo reached || echo closed`,
			gateway, port))); got != want {
			t.Errorf("%s the port is %s, want %s", when, got, want)
		}
	}
	expect("at first", "closed")
	cfOK(t, home, "create-security-group", "wide", rulesFile(t, `[{"protocol":"all","destination":"0.0.0.0/0"}]`))
	cfOK(t, home, "bind-security-group", "wide", "demo", "--space", "dev")
	expect("with a rule for everything", "closed")
	cfOK(t, home, "update-security-group", "wide",
		rulesFile(t, fmt.Sprintf(`[{"protocol":"tcp","destination":%q,"ports":%q}]`, gateway, port)))
	expect("with a rule for this address", "reached")
	cfOK(t, home, "unbind-security-group", "wide", "demo", "dev")
	expect("without it", "closed")
	cfOK(t, home, "delete-security-group", "wide", "-f")
}

// tlsBetween connects two apps with TLS: an instance proves the name of its internal route.
func tlsBetween(t *testing.T, home string, front func(string) string) {
	t.Helper()
	const fetch = `curl -sS --max-time 60 --cacert "$CF_SYSTEM_CERT_PATH/trusted-ca-1.crt" https://%s:61443/ 2>&1 || echo failed`
	if out := front(fmt.Sprintf(fetch, "back.apps.internal")); strings.Contains(out, "hello from the back") {
		t.Errorf("without a policy for the port: %s", out)
	}
	cfOK(t, home, "add-network-policy", "front", "back", "--protocol", "tcp", "--port", "61443")
	for _, name := range []string{"back.apps.internal", "back.svc.internal"} {
		testkit.Eventually(t, "the certificate has the name "+name, func() bool {
			return strings.Contains(front(fmt.Sprintf(fetch, name)), "hello from the back")
		})
	}
	contains(t, front(fmt.Sprintf(fetch, "0.back.apps.internal")), "failed") // not a name of a route
	cfOK(t, home, "remove-network-policy", "front", "back", "--protocol", "tcp", "--port", "61443")
}

// policiesHold connects two apps by an internal route and a policy.
func policiesHold(t *testing.T, s *site, home string, front func(string) string) {
	t.Helper()
	cfOK(t, home, "create-shared-domain", "svc.internal", "--internal")
	cfFails(t, home, "", "map-route", "back", "apps.internal", "--hostname", "back", "--path", "/x")
	cfOK(t, home, "map-route", "back", "apps.internal", "--hostname", "back")
	cfOK(t, home, "map-route", "back", "svc.internal", "--hostname", "back")
	address := strings.TrimSpace(front("getent ahostsv4 back.apps.internal | awk 'NR==1{print $1}'"))
	if net.ParseIP(address) == nil {
		t.Fatalf("back.apps.internal is %q", address)
	}
	for _, name := range []string{"0.back.apps.internal", "back.svc.internal"} {
		contains(t, front("getent ahostsv4 "+name), address)
	}
	for _, name := range []string{"1.back.apps.internal", "nothing.apps.internal"} {
		contains(t, front("getent hosts "+name+" || echo none"), "none")
	}
	const fetch = "curl -sS --max-time 60 http://back.apps.internal:8080/ 2>&1 || echo refused"
	contains(t, front(fetch), "refused")
	cfOK(t, home, "add-network-policy", "front", "back")
	contains(t, front(fetch), "hello from the back")
	contains(t, columns(cfOK(t, home, "network-policies")), "front back tcp 8080 dev demo")
	contains(t, columns(cfOK(t, home, "network-policies", "--source", "front")), "front back tcp 8080")
	tlsBetween(t, home, front)
	cfOK(t, home, "scale", "back", "-i", "2")
	s.running(t, guid(t, home, "back"), 2)
	contains(t, front("curl -sS --max-time 60 http://1.back.apps.internal:8080/"), "hello from the back")
	// Internal routes are not for the world.
	s.call(t, http.MethodGet, s.API+"/", "", nil, header{"Host", "back.apps.internal"}).want(t, http.StatusNotFound)
	cfOK(t, home, "remove-network-policy", "front", "back", "--protocol", "tcp", "--port", "8080")
	contains(t, front(fetch), "refused")
	cfFails(t, home, "", "add-network-policy", "front", "nothing")
	cfOK(t, home, "add-network-policy", "front", "back", "--protocol", "udp", "--port", "1000-2000")
	contains(t, columns(cfOK(t, home, "network-policies")), "front back udp 1000-2000")
	cfOK(t, home, "delete", "back", "-f", "-r")
	if out := cfOK(t, home, "network-policies"); strings.Contains(out, "udp") {
		t.Errorf("the policy of a deleted app is still there:\n%s", out)
	}
	contains(t, front("getent hosts back.apps.internal || echo none"), "none")
}
