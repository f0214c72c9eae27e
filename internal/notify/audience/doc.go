// Package audience finds the members of an audience: it implements
// notify.Directory over HTTP. Users and scopes come from a UAA-compatible
// authorization server, spaces and organizations from a platform with
// Cloud Foundry's v3 API, either Ingot's own or any other.
//
// Everything is read in pages with the token of one client, and the size of
// responses is limited. Cursors name the last member seen where the server allows
// it, so that no member is missed when others are added or removed between two
// pages.
//
// It must not import the authorization server or the platform.
//
// Imports: base/fault, base/uaaclient, notify, github.com/maypok86/otter/v2.
package audience
