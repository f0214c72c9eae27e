// Package apps has the commands for apps that exist: start, stop, scale, deployments,
// revisions, droplets, tasks, environment, logs, ssh, health checks and labels.
//
// It must not import other packages of commands; push imports it.
//
// Imports: base/cfapi, base/crashlines, base/digits, base/pattern,
// base/suggest, cli/client, cli/core, cli/shell, cli/term, golang.org/x/term.
package apps
