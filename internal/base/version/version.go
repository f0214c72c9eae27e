package version

// Version is the version of the build: the output of `git describe` when the
// Makefile built it, or "dev" for a program built any other way (`go run`, `go
// test`). The Makefile sets it by its full name, so it has to stay a variable
// in this package.
var Version = "dev"

// DataFormat is the version of the data directory's layout: its files and
// folders and their meaning. It is incremented when a server can no longer use
// a directory of the previous version; the database schema has its own version,
// managed by its migrations.
const DataFormat = 1
