package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/handbook/handbooktest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify/outbound"
)

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// documented returns the shell commands of a document, in order, with the
// addresses of this server instead of the default ones.
func documented(t *testing.T, s *Server, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		script.WriteString(block[1])
	}
	return strings.NewReplacer(
		"http://127.0.0.1:8080", s.API, "http://127.0.0.1:8081", s.Notifications, "http://127.0.0.1:8082", s.Admin,
		"/var/lib/ingot", s.Dir,
	).Replace(script.String())
}

// TestNotificationsGuide runs the commands of docs/notifications.md, and those that continue them.
func TestNotificationsGuide(t *testing.T) {
	t.Parallel()
	s := start(t, options{Args: []string{"--demo"}})
	dir := t.TempDir()
	var script strings.Builder
	for _, name := range []string{"", "-templates", "-inbox", "-push", "-reference", "-topics", "-workflows", "-digests"} {
		script.WriteString(documented(t, s, "notifications"+name+".md"))
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("running the documented commands: %v\n%s", err, out)
	}
	signature := outbound.Sign("s3cret", time.Unix(1900000000, 0), []byte(`{"events":[]}`))
	contains(t, string(out), `"status":"queued"`, `{"status":"`, strings.TrimPrefix(signature, "t=1900000000,v1="))

	p := &mailFixture{Server: s}
	for _, to := range []string{"admin@localhost", "eve@example.org", "dora@example.org"} {
		testkit.Eventually(t, fmt.Sprintf("the mail to %s is in the mailbox", to), func() bool {
			return strings.Contains(p.call(t, "GET", s.Admin+"/mailbox/messages", "", nil).String(), to)
		})
	}
	contains(t, string(out), `"email after 5s, if not read in the inbox"`, `"event":"waiting","channel":"email"`)
	for _, subject := range []string{"Did you see it?", "2 notifications: "} {
		testkit.Eventually(t, "what was not read is mailed, and what was collected: "+subject, func() bool {
			return strings.Contains(p.call(t, "GET", s.Admin+"/mailbox/messages", "", nil).String(), subject)
		})
	}
}

// TestDocumentedBlocks runs the blocks of commands that docs/blocks.txt assigns to it, in the order of the list.
func TestDocumentedBlocks(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile(filepath.Join("..", "docs", "blocks.txt"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]handbooktest.Block{}
	for _, b := range handbooktest.Blocks(t, "..") {
		blocks[b.Name()] = b
	}
	s := startApps(t, options{Engine: "process"})
	home, dir := s.admin(t), t.TempDir()
	cfOK(t, home, pushProbe(t, "shop")...)
	cfOK(t, home, "set-env", "shop", "GREETING", "hello")
	cfOK(t, home, "restart", "shop") // its second revision
	rules := `[{"protocol": "tcp", "destination": "10.20.0.0/24", "ports": "5432"}]`
	if err := os.WriteFile(filepath.Join(dir, "rules.json"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program(t), filepath.Join(dir, "ingot")); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(s.API, "http://")
	addresses := strings.NewReplacer("http://127.0.0.1:8080", s.API, "http://localhost:8080", s.API,
		"http://127.0.0.1:8082", s.Admin, "/var/lib/ingot", s.Dir, " NAME ", " shop ")
	ran := 0
	for line := range strings.Lines(string(table)) {
		words := strings.Fields(line)
		if len(words) != 3 || words[1] != "run" || words[2] != "TestDocumentedBlocks" {
			continue
		}
		ran++
		script := `curl() { command curl --connect-to "::` + host + `" "$@"; }` + "\n" +
			addresses.Replace(strings.Join(blocks[words[0]].Typed(), "\n"))
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
		cmd.Dir = dir
		cmd.Env = slices.Concat(cfCommand(t.Context(), t, home, nil).Env, []string{"INGOT_DATA_DIR=" + s.Dir,
			"PASSWORD=a-long-password", "PATH=" + dir + ":" + filepath.Dir(cfProgram(t)) + ":" + os.Getenv("PATH")})
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s\n%s", words[0], err, script, out)
		}
	}
	if ran < 15 {
		t.Errorf("only %d blocks were run", ran)
	}
}
