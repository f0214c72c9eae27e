// Package cli is the command-line client: the commands a developer types, from
// login to push to logs, for Ingot and for any other Cloud Foundry. It uses
// public APIs only. A server on the same machine is found through the files of
// its data directory, which only its owner can read.
//
// A command is an entry in the table of commands.go and a type with its flags and
// a run method. The result of run is shown as text, or as JSON with --json;
// progress messages are never part of the JSON. Failures say what happened, why,
// and what to do next. The exit codes are 0 for success, 1 for a failure and 2
// for incorrect usage.
//
// It must not import the server's packages: the program passes in what the client
// needs to know about the machine (for doctor).
//
// Imports: base/crashlines, base/manifestkeys, base/manpage, base/plural,
// base/suggest, base/version, cli/bits, cli/client, cli/config, cli/shell,
// cli/term, cli/watch, github.com/jessevdk/go-flags, go.yaml.in/yaml/v2,
// golang.org/x/term.
package cli
