// Package page is what all pages of the console share: the login and its sessions, calls to the
// APIs with the token of the user, templates and their layout, forms, lists, live pages and
// streams. A Part is the pages about one subject; package console adds all parts.
//
// It must not import a part.
//
// Imports: base/background, base/cfapi, base/fault, base/keyed, base/logging,
// base/look, base/pattern, base/version, base/web.
package page
