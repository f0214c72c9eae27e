package archtest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const (
	maxPackageFiles = 30
	maxPackageLines = 6000
	packageReason   = "in a larger package nothing is found at once: what belongs together becomes a package below it"
)

// largePackages are the packages that may be larger, each with its reason.
var largePackages = map[string]string{
	"bench":           "one program with a file for each benchmark",
	"internal/system": "it has a short file for each part that it connects; TestSystemSize limits its lines",
}

// TestPackageSize checks that no package outside of tests is over the limits.
func TestPackageSize(t *testing.T) {
	t.Parallel()
	var violations []string
	for _, p := range packages(t) {
		if strings.HasSuffix(p.path(), "test") {
			continue // tests of several packages, such as the suite that every store passes
		}
		files, lines := 0, 0
		for _, name := range p.sources() {
			files++
			lines += bytes.Count(read(t, p.Dir, name), []byte("\n"))
		}
		violations = append(violations, checkPackageSize(p.path(), files, lines)...)
	}
	report(t, packageReason, violations)
}

func checkPackageSize(path string, files, lines int) []string {
	large := files > maxPackageFiles || lines > maxPackageLines
	reason := largePackages[path]
	switch {
	case large && reason == "":
		return []string{fmt.Sprintf("%s: %d files with %d lines, at most %d with %d", path, files, lines,
			maxPackageFiles, maxPackageLines)}
	case !large && reason != "":
		return []string{path + ": is small enough now; remove it from largePackages"}
	}
	return nil
}

func TestPackageSizeCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path         string
		files, lines int
		want         int
	}{
		{"internal/x", 30, 6000, 0}, {"internal/x", 31, 10, 1}, {"internal/x", 1, 6001, 1},
		{"internal/system", 40, 4900, 0}, {"internal/system", 30, 4900, 1},
	} {
		if got := checkPackageSize(test.path, test.files, test.lines); len(got) != test.want {
			t.Errorf("%+v: %q, want %d violations", test, got, test.want)
		}
	}
}
