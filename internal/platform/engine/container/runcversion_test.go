package container

import (
	"strings"
	"testing"
)

func TestRuncProblem(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"runc version 1.1.12\ncommit: v1.1.12-0-g51d5e946\nspec: 1.0.2-dev\n": "",
		"runc version 1.3.3\n":                               "",
		"runc version 2.0.0-rc1\n":                           "",
		"runc version 1.1.11\ncommit: v1.1.11-0-g4bccb38c\n": "CVE-2024-21626): install 1.1.12",
		"runc version 1.1.12-rc.1\n":                         "install 1.1.12",
		"runc version 1.0.0-rc93\n":                          "install 1.1.12",
		// Debian 12: with and without the fix.
		"runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev\ngo: go1.19.8\n": "",
		"runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u11\n":                               "",
		"runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+b1\n":                                     "security updates",
		"runc version 1.0.0~rc93+ds1\ncommit: 1.0.0~rc93+ds1-5+deb11u2\n":                      "security updates",
		"runc version 1.0.0~rc93+ds1\ncommit: 1.0.0~rc93+ds1-5+deb11u3\n":                      "",
		// Ubuntu.
		"runc version 1.1.7-0ubuntu1~22.04.2\n": "",
		"runc version 1.1.7-0ubuntu1~22.04.1\n": "security updates",
		"crun version 1.8.1\n":                  "does not say",
		"":                                      "does not say",
	} {
		got := RuncProblem(output)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}
