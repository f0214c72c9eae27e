package version

// Version names the build: what `git describe` said when the Makefile built it,
// or "dev" for a program built any other way (`go run`, `go test`). The Makefile
// sets it by its full name, so it stays a variable and keeps its place.
var Version = "dev"

// DataFormat is the version of the data directory's layout: which files and
// folders it holds and what they mean. It goes up by one when a server can no
// longer use a directory as the version before it left it; the schema of the
// database has its own version, kept by its migrations.
const DataFormat = 1
