// Package routes has the commands for what reaches apps, and what apps reach: routes,
// domains, network policies and security groups.
//
// It must not import other packages of commands.
//
// Imports: base/cfapi, cli/client, cli/core, cli/term.
package routes
