// Package uaaclient is a client of a UAA-compatible authorization server, the
// built-in one or any other, over its public HTTP API: it gets tokens for an OAuth
// client, looks up users and groups, and creates OAuth clients.
//
// It must not import the authorization server or its store.
//
// Imports: base/fault.
package uaaclient
