package main

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/distro"
	"ingot/internal/cli/core"
)

// A runtimeProgram is a program that bundled buildpacks and their apps use.
type runtimeProgram struct {
	name    string
	use     string // what does not work without it
	version string // the flag that shows its version
}

// runtimes are the programs that the bundled buildpacks use. A test compares
// them with the buildpacks.
var runtimes = []runtimeProgram{
	{"node", "Node.js apps", "--version"},
	{"npm", "Node.js apps with dependencies", "--version"},
	{"python3", "Python apps", "--version"},
	{"pip3", "Python apps with dependencies", "--version"},
	{"go", "Go apps pushed as source", "version"},
	{"ruby", "Ruby apps", "--version"},
	{"bundle", "Ruby apps with a Gemfile", "--version"},
	{"php", "PHP apps", "--version"},
	{"composer", "PHP apps with dependencies", ""},
	{"java", "Java apps", "-version"},
	{"javac", "Java apps pushed as source", "-version"},
	{"catalina.sh", "Java web archives (WAR)", ""},
	{"nginx", "apps with an nginx.conf", "-v"},
}

// instanceDirs are the directories that app instances search, and some that
// their buildpacks know.
var instanceDirs = []string{
	"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin", "/usr/lib/go/bin",
	"/usr/share/tomcat*/bin", "/opt/tomcat*/bin",
}

// checkRuntimes looks for the runtimes of the bundled buildpacks, concurrently,
// because some are slow to print their version.
func checkRuntimes(ctx context.Context) []core.Finding {
	found := make([]core.Finding, len(runtimes))
	var all background.WaitGroup
	for i, r := range runtimes {
		all.Go("doctor", func() { found[i] = r.check(ctx) })
	}
	all.Wait()
	return found
}

func (r runtimeProgram) check(ctx context.Context) core.Finding {
	// Apps in containers do not see programs that are only in this user's PATH.
	path := cmp.Or(findIn(r.name, instanceDirs), find(r.name))
	if path == "" {
		return core.Finding{Name: r.name, State: core.FindingMissing, Get: fmt.Sprintf("needed by %s: %s",
			r.use, distro.Install(r.name))}
	}
	f := core.Finding{Name: r.name, State: core.FindingOK, Found: path}
	if r.version == "" {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, r.version).CombinedOutput() //nolint:gosec // from the table above
	if line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); err == nil && line != "" {
		f.Found += " (" + versionOf(line) + ")"
	}
	return f
}

// versionOf returns the version number in a line.
func versionOf(line string) string {
	for _, cut := range []string{" (", " [", " from ", " linux/"} {
		line, _, _ = strings.Cut(line, cut)
	}
	return strings.TrimSpace(line)
}

// findIn searches directories, which may be patterns, for a program.
func findIn(name string, dirs []string) string {
	for _, dir := range dirs {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}
