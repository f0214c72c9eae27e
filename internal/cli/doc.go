// Package cli is the command-line client: the commands a developer types, from
// login to push to logs, for Ingot and for any other Cloud Foundry. It uses
// public APIs only. A server on the same machine is found through the files of
// its data directory, which only its owner can read.
//
// This package makes one table of the commands of the packages below it, parses a
// command line, runs the command, and writes help, manual pages and completion. What
// all commands use is in core. A command is a function with its core.Entry in the same
// file: name, arguments, help and flags. Its result is shown as text, or as JSON with
// --json; progress messages are never part of the JSON. Failures say what happened,
// why, and what to do next. The exit codes are 0 for success, 1 for a failure and 2
// for incorrect usage.
//
// It must not import the server's packages: the program passes in what the client
// needs to know about the machine (for doctor).
//
// Imports: base/cfapi, base/manpage, base/pattern, base/suggest, cli/access,
// cli/admin, cli/apps, cli/client, cli/core, cli/docs, cli/notifications,
// cli/push, cli/routes, cli/services, cli/term, github.com/jessevdk/go-flags.
package cli
