package main

import (
	"strings"
	"testing"

	"ingot/internal/base/distro"
)

// Doctor knows how to install each program that it looks for.
func TestInstallCommands(t *testing.T) {
	t.Parallel()
	names := []string{"zoneinfo"} // if TZ names a time zone that is not installed
	for _, r := range runtimes {
		names = append(names, r.name)
	}
	for _, f := range tools() {
		names = append(names, f.Name)
	}
	for _, name := range names {
		if got := distro.Install(name); strings.Contains(got, "no package") && name != "catalina.sh" { // Alpine has none
			t.Errorf("%s: %s", name, got)
		}
	}
}
