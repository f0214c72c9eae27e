// Package audience knows who belongs to an audience: it implements
// notify.Directory over HTTP. Users and scopes come from a UAA-compatible
// authorization server, spaces and organizations from a platform that speaks
// Cloud Foundry's v3 API, be they ours or any others.
//
// Everything is read in pages, with one token, and answers are bounded. Cursors
// name the last member seen where the server allows it, so that nobody is
// missed when members come and go between two pages.
//
// It must not know the code of the authorization server or the platform.
//
// Imports: base/fault, base/uaaclient, notify, github.com/maypok86/otter/v2.
package audience
