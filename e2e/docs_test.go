package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify/delivery"
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

// TestNotificationsGuide runs the commands of docs/notifications.md.
func TestNotificationsGuide(t *testing.T) {
	t.Parallel()
	s := start(t, options{Args: []string{"--demo"}})
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", documented(t, s, "notifications.md"))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("running the documented commands: %v\n%s", err, out)
	}
	signature := delivery.Sign("s3cret", time.Unix(1900000000, 0), []byte(`{"events":[]}`))
	contains(t, string(out), `"status":"queued"`, `{"status":"`, strings.TrimPrefix(signature, "t=1900000000,v1="))

	p := &mailFixture{Server: s}
	for _, to := range []string{"admin@localhost", "eve@example.org", "dora@example.org"} {
		testkit.Eventually(t, fmt.Sprintf("the mail to %s is in the mailbox", to), func() bool {
			return strings.Contains(p.call(t, "GET", s.Admin+"/mailbox/messages", "", nil).String(), to)
		})
	}
}
