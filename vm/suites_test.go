//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// suiteTimeout is for one suite. The container engine's takes five minutes without emulation.
const suiteTimeout = 2 * time.Hour

// suites runs tests that were compiled on this machine, as root and on cgroup v2.
func suites(t *testing.T, s *site) {
	s.run(t, `systemctl stop ingot 2>/dev/null || true
if [ -d /var/lib/ingot ]; then ingot down --data-dir /var/lib/ingot; fi`)
	for _, suite := range []struct{ name, flags string }{
		{"cgroup", ""},
		// It asks the go tool for imports.
		{"ingot-init", "-test.skip '^TestLinksLittle$'"},
		{"container", "-test.parallel 2"},
	} {
		t.Run(suite.name, func(t *testing.T) { //nolint:paralleltest // one after another
			runSuite(t, s, suite.name, suite.flags)
		})
	}
}

var (
	skipped = regexp.MustCompile(`(?m)^ *--- SKIP: (\S+) .*\n *(.*)$`)
	failed  = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	passed  = regexp.MustCompile(`(?m)^ *--- PASS: \S+`)
)

func runSuite(t *testing.T, s *site, name, flags string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteTimeout)
	defer cancel()
	var out bytes.Buffer
	began := time.Now()
	// Without containers its tests must fail, not be skipped. /tmp and the programs are where any user
	// can execute them.
	err := s.guest.stream(ctx, "root", fmt.Sprintf(`rm -rf /srv/suite; install -d /srv/suite; cp -r /files/programs /srv/suite; cd /srv/suite
INGOT_TEST_PROGRAMS=/srv/suite/programs INGOT_REQUIRE_CONTAINERS=1 /files/%s.test -test.v -test.timeout %s -test.run '%s' %s`,
		name, suiteTimeout, *suiteFilter, flags), nil, &out)
	text := out.String()
	if to := os.Getenv(logsVariable); err != nil && to != "" {
		_ = os.MkdirAll(to, 0o755)
		_ = os.WriteFile(filepath.Join(to, "suite-"+name+".log"), out.Bytes(), 0o644) //nolint:gosec // not secret
	}
	var names []string
	for _, m := range failed.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	ran, skips := len(passed.FindAllString(text, -1)), skipped.FindAllStringSubmatch(text, -1)
	for _, m := range skips {
		t.Logf("skipped: %s: %s", m[1], m[2])
	}
	row(t, "suite of `"+name+"` in the guest, as root on cgroup v2", "pass",
		fmt.Sprintf("%d passed, %d failed, %d skipped, %s", ran, len(names), len(skips), seconds(time.Since(began))))
	if err != nil {
		t.Errorf("%v: %s\n%s", err, strings.Join(names, " "), tail(text, 60))
	}
	if ran == 0 {
		t.Error("no test has run")
	}
}

// tail returns the last lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
