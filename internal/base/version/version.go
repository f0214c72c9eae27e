package version

import (
	"cmp"
	"runtime/debug"

	"ingot/internal/base/pattern"
)

// next is the release that is being worked on. scripts/version reads it here.
const next = "0.1.0"

// stamped is what the Makefile sets by its full name: the output of scripts/version.
var stamped string

// Version names the build by semantic versioning: the tag that was built, without
// its v, or the next release with -dev and the commit, such as 0.1.0-dev+1e1c280.
// A program that the Makefile did not build takes them from its build information.
var Version = cmp.Or(stamped, built(debug.ReadBuildInfo))

// DataFormat is the version of the data directory's layout: its files and
// folders and their meaning. It is incremented when a server can no longer use
// a directory of the previous version; the database schema has its own version,
// managed by its migrations.
const DataFormat = 1

// release matches the versions of tags, and no pseudo-version: that has more dashes.
var release = pattern.OnUse(`^v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)$`)

// built returns the version by what the go tool recorded in the program: nothing
// of the commit in tests, with -buildvcs=false and outside of a repository.
func built(read func() (*debug.BuildInfo, bool)) string {
	info, ok := read()
	if !ok {
		return next + "-dev"
	}
	if tag := release().FindStringSubmatch(info.Main.Version); tag != nil {
		return tag[1]
	}
	var commit, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && s.Value != "":
			commit = "+" + s.Value[:min(7, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = ".dirty"
		}
	}
	if commit == "" {
		return next + "-dev"
	}
	return next + "-dev" + commit + dirty
}
