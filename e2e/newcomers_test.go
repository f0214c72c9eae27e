package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingot/internal/cli"
)

// TestCommandList compares the list of the cf CLI's commands in Ingot's client
// with the real cf CLI.
func TestCommandList(t *testing.T) {
	t.Parallel()
	help := cfOK(t, t.TempDir(), "help", "-a")
	var got []string
	section := ""
	title, row := regexp.MustCompile(`^([A-Z/ ]+):$`), regexp.MustCompile(`^   ([a-z][a-z-]+) +\S`)
	for line := range strings.SplitSeq(help, "\n") {
		if m := title.FindStringSubmatch(line); m != nil {
			section = m[1]
		}
		switch section {
		case "", "NAME", "USAGE", "VERSION", "ENVIRONMENT VARIABLES", "GLOBAL OPTIONS", "INSTALLED PLUGIN COMMANDS":
			continue
		}
		if m := row.FindStringSubmatch(line); m != nil {
			got = append(got, m[1])
		}
	}
	var want []string
	for _, g := range cli.CFCommands {
		want = append(want, g.Commands...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("cf has\n%v\nthe list\n%v", got, want)
	}
}

// TestNewcomers does what a new user does first, with both clients where
// possible.
func TestNewcomers(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	tools := s.tools(t)
	ours := tools[0]
	parts := []part{
		{"addresses, logs and tasks", func(t *testing.T) { newcomerApp(t, s, ours) }},
		{"a crash", func(t *testing.T) { newcomerCrash(t, ours) }},
		{"OAuth clients", func(t *testing.T) { newcomerClients(t, s, ours) }},
	}
	for _, c := range tools {
		parts = append(parts, part{"manifest with " + c.name, func(t *testing.T) { newcomerManifest(t, s, c) }})
	}
	together(t, parts...)
}

func newcomerApp(t *testing.T, s *site, c *tool) {
	api, err := url.Parse(s.API)
	if err != nil {
		t.Fatal(err)
	}
	at := "http://fresh.apps.localhost:" + api.Port()
	contains(t, c.ok(t, pushProbe(t, "fresh")...), at)
	for _, args := range [][]string{{"app", "fresh"}, {"apps"}, {"routes"}} {
		contains(t, c.ok(t, args...), at)
	}
	s.reaches(t, "fresh", "/look", http.StatusOK)
	s.logged(t, strings.TrimSpace(c.ok(t, "app", "fresh", "--guid")), "RTR", "fresh.apps.localhost")
	contains(t, c.ok(t, "logs", "fresh", "--recent", "--since", "10m"), "[RTR/", `"GET /look HTTP/1.1"`)
	if out := c.ok(t, "logs", "fresh", "--recent", "--since", "1us"); strings.Contains(out, "[") {
		t.Errorf("older lines:\n%s", out)
	}
	contains(t, c.ok(t, "run-task", "fresh", "--command", "echo task line $((40+2))", "--name", "sum", "--wait"),
		"task line 42", "OK")
	out, code := c.run(t, "run-task", "fresh", "--command", "echo bad line; exit 3", "--name", "bad", "--wait")
	if code != 1 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	contains(t, out, "bad line", "FAILED", "status 3")
	contains(t, c.ok(t, "unset-env", "fresh", "NOPE"), "was not set")
	if out, code := c.run(t, "scale", "fresh", "-m", "1X"); code != 2 || !strings.Contains(out, "256M or 1G") {
		t.Errorf("exit code %d, want 2 and an example of a size: %s", code, out)
	}
}

func newcomerCrash(t *testing.T, c *tool) {
	out, code := c.run(t, pushProbe(t, "wreck", "-c", "echo the reason is here >&2; exit 7")...)
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	_, after, _ := strings.Cut(out, "FAILED")
	contains(t, after, "the reason is here", "Last lines of the log:")

	// One that ignores PORT fails on its first start, and not when the time for it is over.
	out, code = c.run(t, pushProbe(t, "elsewhere", "-c", "exec ./probe elsewhere 0")...)
	if code != 1 || strings.Contains(out, "never healthy after") ||
		strings.Contains(out, "Not healthy yet: instance 0: Instance not healthy") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	before, after, _ := strings.Cut(out, "FAILED")
	contains(t, before, "Not healthy yet: instance 0: port ", " instead; make it listen on the port in $PORT")
	contains(t, after, "instead; make it listen on the port in $PORT; that has not changed for")
}

func newcomerClients(t *testing.T, s *site, c *tool) {
	var made struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	created := c.ok(t, "create-client", "fresh-sender", "--authorities", "notifications.write,emails.write", "--json")
	_, object, _ := strings.Cut(created, "{")
	if err := json.Unmarshal([]byte("{"+object), &made); err != nil || made.ID != "fresh-sender" || made.Secret == "" {
		t.Fatalf("client is %+v, %v, want fresh-sender with a secret\n%s", made, err, created)
	}
	token := func(secret string) int {
		return s.askToken(t, "fresh-sender", secret, url.Values{"grant_type": {"client_credentials"}}).Status
	}
	if status := token(made.Secret); status != http.StatusOK {
		t.Errorf("the generated secret: %d", status)
	}
	contains(t, c.ok(t, "clients"), "fresh-sender", "client_credentials")
	contains(t, c.ok(t, "client", "fresh-sender"), "notifications.write, emails.write")
	contains(t, c.ok(t, "update-client", "fresh-sender", "--authorities", "emails.write"), "emails.write")
	if shown := c.ok(t, "client", "fresh-sender"); strings.Contains(shown, "notifications.write") {
		t.Errorf("after the update:\n%s", shown)
	}
	c.ok(t, "set-client-secret", "fresh-sender", "--secret", "another-secret", "--add")
	if first, second := token(made.Secret), token("another-secret"); first != http.StatusOK || second != http.StatusOK {
		t.Errorf("two secrets: %d, %d", first, second)
	}
	c.ok(t, "set-client-secret", "fresh-sender", "--delete-old")
	if first, second := token(made.Secret), token("another-secret"); first != http.StatusUnauthorized ||
		second != http.StatusOK {
		t.Errorf("the old secret: %d, the new one: %d", first, second)
	}
	c.ok(t, "delete-client", "fresh-sender", "-f")
	if out, code := c.run(t, "client", "fresh-sender"); code != 1 || !strings.Contains(out, "not found") {
		t.Errorf("exit code %d, want 1 and not found: %s", code, out)
	}
}

// newcomerManifest pushes a misspelt manifest, and one that cannot be applied.
func newcomerManifest(t *testing.T, s *site, c *tool) {
	app := "typo-" + c.name
	file := filepath.Join(t.TempDir(), "manifest.yml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(fmt.Sprintf("applications:\n- name: %s\n  memroy: 64M\n  command: ./probe\n", app))
	out := c.ok(t, "push", "-f", file, "-p", probe(t), "--no-start")
	contains(t, out, "manifest key 'memroy' is unknown", "did you mean 'memory'?")
	if c.name == "ingot" {
		contains(t, out, "line 3: ")
		if n := strings.Count(out, "memroy"); n != 1 {
			t.Errorf("it is told %d times:\n%s", n, out)
		}
	}
	s.logged(t, strings.TrimSpace(c.ok(t, "app", app, "--guid")), "API", "WARNING: For application '"+app+
		"': manifest key 'memroy'")

	lost := "lost-" + c.name
	write(fmt.Sprintf("applications:\n- name: %s\n  command: ./probe\n  services: [nowhere]\n", lost))
	out, code := c.run(t, "push", "-f", file, "-p", probe(t))
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	contains(t, out, "Service instance 'nowhere' not found")
	if all := c.ok(t, "apps"); strings.Contains(all, lost) {
		t.Errorf("half an app is left:\n%s", all)
	}
}
