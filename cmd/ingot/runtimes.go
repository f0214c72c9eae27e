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
	"ingot/internal/cli"
)

// A runtime is a program that bundled buildpacks use, and apps with them.
type runtimeProgram struct {
	name    string
	pkg     string // the Debian package that has it
	use     string // what does not work without it
	version string // the flag that shows its version
}

// runtimes are the programs that the bundled buildpacks use. A test compares
// them with the buildpacks.
var runtimes = []runtimeProgram{
	{"node", "nodejs", "Node.js apps", "--version"},
	{"npm", "npm", "Node.js apps with dependencies", "--version"},
	{"python3", "python3", "Python apps", "--version"},
	{"pip3", "python3-pip", "Python apps with dependencies", "--version"},
	{"go", "golang-go", "Go apps pushed as source", "version"},
	{"ruby", "ruby-full", "Ruby apps", "--version"},
	{"bundle", "bundler", "Ruby apps with a Gemfile", "--version"},
	{"php", "php-cli php-mbstring php-xml php-curl", "PHP apps", "--version"},
	{"composer", "composer", "PHP apps with dependencies", ""},
	{"java", "default-jre-headless", "Java apps", "-version"},
	{"javac", "default-jdk-headless", "Java apps pushed as source", "-version"},
	{"catalina.sh", "tomcat10", "Java web archives (WAR)", ""},
	{"nginx", "nginx", "apps with an nginx.conf", "-v"},
}

// instancePlaces are the folders that app instances look in, and some that
// their buildpacks know.
var instancePlaces = []string{
	"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin", "/usr/lib/go/bin", "/usr/share/tomcat*/bin", "/opt/tomcat*/bin",
}

// checkRuntimes looks for the runtimes of the bundled buildpacks, side by side:
// some take a while to tell their version.
func checkRuntimes(ctx context.Context) []cli.Finding {
	found := make([]cli.Finding, len(runtimes))
	var all background.WaitGroup
	for i, r := range runtimes {
		all.Go("doctor", func() { found[i] = r.check(ctx) })
	}
	all.Wait()
	return found
}

func (r runtimeProgram) check(ctx context.Context) cli.Finding {
	// What only the PATH of this user has, apps do not find in containers.
	path := cmp.Or(inPlaces(r.name, instancePlaces), find(r.name))
	if path == "" {
		return cli.Finding{Name: r.name, State: cli.FindingMissing, Get: fmt.Sprintf("needed by %s: apt-get install %s", r.use, r.pkg)}
	}
	f := cli.Finding{Name: r.name, State: cli.FindingOK, Found: path}
	if r.version == "" {
		return f
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, r.version).CombinedOutput() //nolint:gosec // one of the table above
	if line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n"); err == nil && line != "" {
		f.Found += " (" + versionOf(line) + ")"
	}
	return f
}

// versionOf is the part of a version line that people look for.
func versionOf(line string) string {
	for _, cut := range []string{" (", " [", " from ", " linux/"} {
		line, _, _ = strings.Cut(line, cut)
	}
	return strings.TrimSpace(line)
}

// inPlaces looks for a program in folders, which may be patterns.
func inPlaces(name string, places []string) string {
	for _, dir := range places {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}
