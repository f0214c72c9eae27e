//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// suiteTimeout is for one suite. The container engine's takes five minutes without emulation.
const suiteTimeout = 2 * time.Hour

// A compiled is the tests of a package, which were compiled on this machine.
type compiled struct {
	name, user string
	env, flags string
	must       string // a test without which the suite proves little
	may        string // tests that may be skipped, as a pattern
}

// stopped ends the server of root and its apps, if there are any.
const stopped = `systemctl stop ingot 2>/dev/null || true
if [ -d /var/lib/ingot ] && [ -e /usr/bin/ingot ]; then ingot down --data-dir /var/lib/ingot; fi
`

// suites runs the tests of what needs root and control groups.
func suites(t *testing.T, s *site) {
	s.run(t, stopped)
	for _, c := range []compiled{
		{name: "cgroup", must: "TestLimitDisk"},
		// TestLinksLittle asks the go tool for imports.
		{name: "ingot-init", flags: "-test.skip '^TestLinksLittle$'", must: "TestMemory"},
		{name: "container", flags: "-test.parallel 3", must: "TestEngine", may: "/(FixedPort|NoMemberLimit|LostForMemory)$"},
	} {
		t.Run(c.name, func(t *testing.T) { //nolint:paralleltest // one after another
			c.user = "root"
			s.suite(t, c)
		})
	}
}

// suite runs a suite in the guest. It fails if a test is skipped that need not be: a guest that has lost the
// ability to run containers would otherwise pass by running nothing.
func (s *site) suite(t *testing.T, c compiled) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suiteTimeout)
	defer cancel()
	var out bytes.Buffer
	to := io.Writer(&out)
	if dir := os.Getenv(logsVariable); dir != "" {
		_ = os.MkdirAll(dir, 0o755)
		log, err := os.Create(filepath.Join(dir, "suite-"+c.name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		to = io.MultiWriter(&out, log) // as it runs: a suite can take an hour
	}
	began := time.Now()
	// The programs are where any user can execute them.
	s.run(t, `rm -rf /srv/programs; install -d -m 1777 /srv/suite; cp -r /files/programs /srv/programs`)
	err := s.guest.stream(ctx, c.user, fmt.Sprintf(`cd /srv/suite
export INGOT_TEST_PROGRAMS=/srv/programs INGOT_REQUIRE_CONTAINERS=1 %s
/files/%s.test -test.v -test.timeout %s -test.run '%s' %s`, c.env, c.name, suiteTimeout, *suiteFilter, c.flags), nil, to)
	r := results(out.String())
	row(t, "suite of `"+c.name+"` in the guest, as "+c.user+" on cgroup v2", "pass",
		fmt.Sprintf("%d passed, %d failed, %d skipped, %s", len(r.passed), len(r.failed), len(r.skipped),
			seconds(time.Since(began))))
	if err != nil {
		t.Errorf("%v: %s\n%s", err, strings.Join(r.failed, " "), tail(out.String(), 60))
	}
	for name, why := range r.skipped {
		t.Logf("skipped: %s: %s", name, why)
		if !needless.MatchString(why) && (c.may == "" || !regexp.MustCompile(c.may).MatchString(name)) {
			t.Errorf("%s must not be skipped", name)
		}
	}
	if len(r.passed) == 0 || *suiteFilter == "" && !slices.Contains(r.passed, c.must) {
		t.Errorf("%d tests have passed, and %s must be one of them", len(r.passed), c.must)
	}
}

// needless are reasons to skip a test that say nothing about the guest: other targets run these, or they are about
// programs that the guest has not.
var needless = regexp.MustCompile(`INGOT_SOAK|TestMountOptions runs it|the host has no `)

// A result is what a run of tests has printed with -v.
type result struct {
	passed, failed []string
	skipped        map[string]string // with the last line that the test has logged
}

var verdict = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+)`)

func results(text string) result {
	r := result{skipped: map[string]string{}}
	said := map[string]string{}
	current := ""
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == "===" { // RUN, PAUSE, CONT, NAME: what follows is this test's
			current = f[2]
		} else if m := verdict.FindStringSubmatch(line); m == nil {
			said[current] = strings.TrimSpace(line)
		} else if m[1] == "PASS" {
			r.passed = append(r.passed, m[2])
		} else if m[1] == "FAIL" {
			r.failed = append(r.failed, m[2])
		} else {
			r.skipped[m[2]] = said[m[2]]
		}
	}
	return r
}

// TestResults checks that no failed or skipped test is overlooked in the output of others.
func TestResults(t *testing.T) {
	t.Parallel()
	r := results(`=== RUN   TestA
=== PAUSE TestA
=== RUN   TestB
    b_test.go:1: containers do not work here
--- SKIP: TestB (0.00s)
=== CONT  TestA
=== RUN   TestA/one
=== RUN   TestA/two
=== NAME  TestA/one
    a_test.go:2: the host has no java
=== NAME  TestA/two
    a_test.go:3: wrong
--- FAIL: TestA (0.00s)
    --- SKIP: TestA/one (0.00s)
    --- FAIL: TestA/two (0.00s)
=== RUN   TestC
--- PASS: TestC (0.00s)
FAIL
`)
	if !slices.Equal(r.passed, []string{"TestC"}) || !slices.Equal(r.failed, []string{"TestA", "TestA/two"}) ||
		len(r.skipped) != 2 {
		t.Errorf("got %+v", r)
	}
	if needless.MatchString(r.skipped["TestB"]) || !needless.MatchString(r.skipped["TestA/one"]) {
		t.Errorf("skipped: %q", r.skipped)
	}
}

// tail returns the last lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
