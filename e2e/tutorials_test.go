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

// TestTutorials runs the commands of docs/tutorials and compares the output.
func TestTutorials(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "container"})
	var parts []part
	for name, program := range map[string]string{
		"node": "node", "express": "npm",
		"python": "python3", "flask": "pip", "go": "go", "java": "javac", "ruby": "bundle", "php": "php", "static": "",
	} {
		parts = append(parts, part{name, func(t *testing.T) { tutorial(t, s, name, program) }})
	}
	together(t, parts...)
}

var textBlock = regexp.MustCompile("(?s)```text\n(.*?)```")

// patientLogs replaces cf in a script: lines appear in the log a moment after
// they were printed, so 'cf logs' is repeated until it shows the expected ones.
const patientLogs = `
cf() {
  if [ "${1-}" != logs ]; then command cf "$@"; return; fi
  local try
  for try in $(seq 120); do
    command cf "$@" > logs.out
    missing=
    while read -r pattern; do grep -qP -- "$pattern" logs.out || missing=1; done < "$EXPECTED"
    [ -n "$missing" ] || break
    sleep 0.25
  done
  cat logs.out
}
`

// expectedLines writes the patterns of the log lines that a document shows to a
// file, and returns its name.
func expectedLines(t *testing.T, text string) string {
	t.Helper()
	var all strings.Builder
	for _, block := range textBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if strings.Contains(line, "[APP/") || strings.Contains(line, "[RTR/") {
				all.WriteString(linePattern(line) + "\n")
			}
		}
	}
	file := filepath.Join(t.TempDir(), "expected")
	if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// linePattern matches a line of a document: blanks are any number of blanks, and
// … is anything.
func linePattern(line string) string {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.Join(strings.Fields(line), " ")), " ", `[ \t]+`)
	return regexp.MustCompile(`(\[ \\t\]\+)?…(\[ \\t\]\+)?`).ReplaceAllLiteralString(pattern, ".*")
}

// registries are commands that succeed if the packages of a tutorial can be downloaded.
var registries = map[string][]string{
	"express": {"npm", "view", "express", "version"},
	"flask":   {"pip", "download", "--quiet", "--no-deps", "--retries", "0", "flask"},
}

func tutorial(t *testing.T, s *site, name, program string) {
	t.Helper()
	if program != "" && !onSystem(program) {
		t.Skip("not installed: " + program)
	}
	if reach := registries[name]; reach != nil {
		cmd := exec.CommandContext(t.Context(), reach[0], reach[1:]...)
		cmd.Dir = t.TempDir()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("the registry of %s cannot be reached: %v\n%s", reach[0], err, out)
		}
	} else if _, err := exec.LookPath("redis-server"); err != nil {
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
	// Names of apps resolve to this server, whatever its address.
	script := `curl() { command curl --connect-to "::` + at.Host + `" "$@"; }` + patientLogs +
		documented(t, s.Server, file)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = t.TempDir(), cfCommand(t.Context(), t, home, nil).Env
	cmd.Env = append(cmd.Env, "EXPECTED="+expectedLines(t, string(text)))
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(cfProgram(t))+":"+os.Getenv("PATH"))
	raw, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("running the tutorial: %v\n%s", err, raw)
	}
	out := strings.ReplaceAll(string(raw), "\r", "")
	for _, block := range textBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			pattern := linePattern(line)
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
