// Package services has the commands for services: the marketplace, service instances,
// bindings, keys, the rotation of credentials, and brokers with their access.
//
// It must not import other packages of commands than routes.
//
// Imports: base/cfapi, base/plural, cli/client, cli/core, cli/routes, cli/term.
package services
