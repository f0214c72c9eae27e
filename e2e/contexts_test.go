package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// ingotIn returns Ingot's client with a home directory that the cf CLI uses, too. It finds no
// server by itself.
func ingotIn(t testing.TB, home string, env ...string) *tool {
	t.Helper()
	c := &tool{name: "ingot", home: home}
	c.cmd = func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, program(t), args...)
		cmd.Dir = home
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CF_HOME=" + home,
			"INGOT_DATA_DIR=" + filepath.Join(home, "no-server"), "TZ=UTC"}, env...)
		return cmd
	}
	return c
}

// Two servers and one home: contexts keep the logins apart, and the cf CLI shares one.
func TestContexts(t *testing.T) {
	t.Parallel()
	first, second := start(t, options{}), start(t, options{})
	shortTokens(t, first)
	home := t.TempDir()
	ours := ingotIn(t, home)
	for s, org := range map[*Server]string{first: "acme", second: "globex"} {
		ours.ok(t, "login", "-a", s.API, "-u", "admin", "-p", s.secret(t, "admin-password"))
		ours.ok(t, "create-org", org)
		ours.ok(t, "create-space", "dev", "-o", org)
		ours.ok(t, "target", "-o", org, "-s", "dev")
		name := strings.TrimSpace(jsonField(t, ours.ok(t, "target", "--json"), "context"))
		ours.ok(t, "context", "rename", name, org)
	}
	contains(t, ours.ok(t, "apps", "--context", "acme"), "in org acme / space dev")
	contains(t, ours.ok(t, "--context", "globex", "apps"), "in org globex / space dev")

	// The cf CLI has settings and a login; the export keeps the first and asks about the second.
	cfOK(t, home, "api", second.API)
	cfOK(t, home, "auth", "admin", second.secret(t, "admin-password"))
	cfOK(t, home, "config", "--async-timeout", "7")
	if out, code := ours.run(t, "context", "export", "--context", "acme"); code != 1 {
		t.Errorf("the export replaced a login without being asked to:\n%s", out)
	}
	contains(t, ours.ok(t, "context", "export", "--context", "acme", "-f"), "The cf CLI is logged in to "+first.API)
	contains(t, cfOK(t, home, "apps"), "in org acme / space dev as admin")
	contains(t, cfOK(t, home, "target"), first.API, "acme", "dev")
	if timeout := cfSetting(t, home, "AsyncTimeout"); timeout != 7.0 {
		t.Errorf("AsyncTimeout is %v after the export, want 7", timeout)
	}
	sharedLogin(t, ours, home)

	// The other way round: what the cf CLI targets is a context.
	cfOK(t, home, "api", second.API)
	cfOK(t, home, "auth", "admin", second.secret(t, "admin-password"))
	ours.ok(t, "context", "use", "cf")
	contains(t, ours.ok(t, "target", "-o", "globex", "-s", "dev"), "cf", second.API)
	contains(t, ours.ok(t, "apps"), "in org globex / space dev as admin")
	contains(t, cfOK(t, home, "target"), "globex", "dev")
	contains(t, ours.ok(t, "apps", "--context", "acme"), "in org acme / space dev")
	ours.ok(t, "logout")
	cfFails(t, home, "Not logged in", "apps")
	if timeout := cfSetting(t, home, "AsyncTimeout"); timeout != 7.0 {
		t.Errorf("AsyncTimeout is %v after the logout, want 7", timeout)
	}

	// The server of this machine has its own context, beside the others.
	local := ingotIn(t, home, "INGOT_DATA_DIR="+first.Dir)
	contains(t, local.ok(t, "contexts"), "local", "acme", "globex", "cf")
	local.ok(t, "context", "use", "local")
	contains(t, local.ok(t, "apps"), "in org acme / space dev")
	local.ok(t, "context", "export")
	contains(t, cfOK(t, home, "apps"), "in org acme / space dev as admin")
	contains(t, local.ok(t, "apps"), "in org acme / space dev")
}

// sharedLogin renews an exported login in turns; every command of either client does.
func sharedLogin(t *testing.T, ours *tool, home string) {
	t.Helper()
	seen := map[string]bool{}
	for range 3 {
		cfOK(t, home, "oauth-token")
		_, theirs := cfTokens(t, home)
		ours.ok(t, "apps", "--context", "acme")
		_, renewed := cfTokens(t, home)
		if seen[theirs] || seen[renewed] || theirs == renewed {
			t.Fatalf("the refresh token was not replaced: %v, %s, %s", seen, theirs, renewed)
		}
		seen[theirs], seen[renewed] = true, true
	}
	contains(t, cfOK(t, home, "apps"), "in org acme / space dev as admin")
}

// cfSetting returns a member of the cf CLI's configuration.
func cfSetting(t testing.TB, home, name string) any {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(home, ".cf", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	return jsonObject(t, string(content))[name]
}

func jsonObject(t testing.TB, text string) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

func jsonField(t testing.TB, text, name string) string {
	t.Helper()
	value, _ := jsonObject(t, text)[name].(string)
	return value
}
