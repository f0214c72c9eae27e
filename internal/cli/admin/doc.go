// Package admin has the commands for operators of a platform: buildpacks, stacks,
// feature flags, environment variables of all apps, and doctor, which checks a
// machine or a cluster.
//
// It must not import other packages of commands.
//
// Imports: base/cfapi, cli/bits, cli/client, cli/config, cli/core, cli/term.
package admin
