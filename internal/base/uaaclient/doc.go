// Package uaaclient speaks to a UAA-compatible authorization server, the
// built-in one or any other, over its public HTTP API: it gets a token for a
// client of our own and looks up users and groups.
//
// It must not know the authorization server's code or tables.
//
// Imports: base/fault.
package uaaclient
