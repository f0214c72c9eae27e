// Package access has the commands that decide who may do what, and where: login and
// target, orgs and spaces, users and roles, OAuth clients, quotas, isolation segments,
// and curl, which sends a request with the access token.
//
// It must not import other packages of commands than routes.
//
// Imports: base/cfapi, cli/client, cli/config, cli/core, cli/routes, cli/term.
package access
