// Package cli is the command-line client: the commands a developer types, from
// login to push to logs, for Ingot and for any other Cloud Foundry. It speaks
// the public APIs alone; a server on the same machine is found by the files of
// its data directory, which only its owner can read.
//
// A command is an entry in the table of commands.go and a type with its flags
// and a run method. What run returns is shown as text, or as JSON with --json;
// what it says on the way is for people and never part of the JSON. Failures
// say what happened, why, and what to do. The exit codes are 0, 1 for a
// failure and 2 for a call that is not understood.
//
// It must not import the server's packages: what the client needs from the
// machine (for doctor) is handed in by the program.
//
// Imports: base/manifestkeys, base/suggest, base/version, cli/bits, cli/client,
// cli/config, cli/shell, cli/term, github.com/jessevdk/go-flags,
// go.yaml.in/yaml/v2, golang.org/x/term.
package cli
