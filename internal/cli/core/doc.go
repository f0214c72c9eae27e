// Package core has what all commands of the client use: the session of a run, entries of
// the table of commands, results, failures, questions to the user, and calls that find or
// change a resource.
//
// It must not import the packages of commands, which import it.
//
// Imports: base/cfapi, base/plural, base/suggest, base/version, cli/bits,
// cli/client, cli/config, cli/term.
package core
