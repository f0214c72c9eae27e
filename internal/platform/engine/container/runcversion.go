package container

import (
	"fmt"
	"strconv"
	"strings"

	"ingot/internal/base/pattern"
)

// leastRunc is the first release of runc without CVE-2024-21626, the last known escape to
// the host's files that does not need host root inside: a working directory that leads
// through an open descriptor of runc. (What was fixed in 1.2.8 and 1.3.3, CVE-2025-31133
// and related ones, is kept from the host's files by the user namespace of every instance.)
var leastRunc = [3]int{1, 1, 12}

const leastRuncText = "1.1.12"

// patchedRunc are older releases with the fix backported by distributions: a prefix of the
// package's version, and the smallest number that follows.
var patchedRunc = []struct {
	prefix string
	least  int
}{
	{"1.0.0~rc93+ds1-5+deb11u", 3}, // Debian 11
	{"1.1.5+ds1-1+deb12u", 1},      // Debian 12
	{"1.1.7-0ubuntu1~20.04.", 2},   // Ubuntu 20.04
	{"1.1.7-0ubuntu1~22.04.", 2},   // Ubuntu 22.04
	{"1.1.7-0ubuntu2.", 2},         // Ubuntu 23.10
}

var (
	runcRelease = pattern.OnUse(`^(\d+)\.(\d+)\.(\d+)(.*)$`)
	leadDigits  = pattern.OnUse(`^\d+`)
)

// RuncProblem returns a known problem of a runc version, given the output of `runc
// --version`; "" if there is none. An older package of a distribution is not reported,
// because it may have the fix.
func RuncProblem(output string) string {
	version, commit := "", ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if v, ok := strings.CutPrefix(line, "runc version "); ok {
			version = v
		}
		if v, ok := strings.CutPrefix(line, "commit: "); ok {
			commit = v // in Debian's packages, the whole version
		}
	}
	m := runcRelease().FindStringSubmatch(version)
	if m == nil {
		return fmt.Sprintf("this runc does not say which version it is (%q): use one from %s on, which has no known way "+
			"out of containers (CVE-2024-21626)", version, leastRuncText)
	}
	if !olderRunc(m) {
		return ""
	}
	for _, p := range patchedRunc {
		for _, text := range []string{version, commit} {
			rest, ok := strings.CutPrefix(text, p.prefix)
			if n, err := strconv.Atoi(leadDigits().FindString(rest)); ok && err == nil && n >= p.least {
				return ""
			}
		}
	}
	if m[4] == "" || strings.HasPrefix(m[4], "-rc") {
		return fmt.Sprintf("runc %s has a known way out of containers (CVE-2024-21626): install %s or later", version,
			leastRuncText)
	}
	return fmt.Sprintf(
		"runc %s is older than %s, the release that closes a known way out of containers (CVE-2024-21626): "+
			"install the security updates of your distribution, and see there whether its runc has the fix", version,
		leastRuncText)
}

// olderRunc reports whether a release is older than leastRunc. A release candidate is older
// than its release.
func olderRunc(m []string) bool {
	for i, least := range leastRunc {
		n, err := strconv.Atoi(m[i+1])
		if err != nil {
			return true
		}
		if n != least {
			return n < least
		}
	}
	return strings.HasPrefix(m[4], "-rc") || strings.HasPrefix(m[4], "~rc")
}
