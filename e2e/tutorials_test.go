package e2e

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTutorials types what docs/tutorials show, and compares what comes out.
func TestTutorials(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "container"})
	var parts []part
	for name, program := range map[string]string{
		"node": "node", "python": "python3", "go": "go", "java": "javac", "ruby": "bundle", "php": "php", "static": "",
	} {
		parts = append(parts, part{name, func(t *testing.T) { tutorial(t, s, name, program) }})
	}
	together(t, parts...)
}

var textBlock = regexp.MustCompile("(?s)```text\n(.*?)```")

func tutorial(t *testing.T, s *site, name, program string) {
	t.Helper()
	if program != "" && !onSystem(program) {
		t.Skip("not installed: " + program)
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("not installed: redis-server")
	}
	file := filepath.Join("tutorials", name+".md")
	text, err := os.ReadFile(filepath.Join("..", "docs", file))
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(s.API)
	if err != nil {
		t.Fatal(err)
	}
	home := s.admin(t)
	// Names of apps lead to this server, on whatever address it listens.
	script := `curl() { command curl --connect-to "::` + at.Host + `" "$@"; }` + "\n" + documented(t, s.Server, file)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = t.TempDir(), cfCommand(t.Context(), t, home, nil).Env
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(cfProgram(t))+":"+os.Getenv("PATH"))
	raw, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	out := strings.ReplaceAll(string(raw), "\r", "")
	for _, block := range textBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.Join(strings.Fields(line), " ")), " ", `[ \t]+`)
			pattern = regexp.MustCompile(`(\[ \\t\]\+)?…(\[ \\t\]\+)?`).ReplaceAllLiteralString(pattern, ".*")
			// cf push does not always show the end of a build; then it is in the log.
			pattern = `(?m)^[ \t]*(\S+ \[STG/0\] OUT +)?` + pattern + `[ \t]*$`
			if found, err := regexp.MatchString(pattern, out); err != nil || !found {
				t.Errorf("%s shows %q, which does not come out (%v)", file, strings.TrimSpace(line), err)
			}
		}
	}
	if t.Failed() {
		t.Logf("all that came out:\n%s", out)
	}
}
