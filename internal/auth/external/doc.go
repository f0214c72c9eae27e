// Package external stands for an authorization server that is not part of this
// process: a UAA, or another Ingot. It reads the issuer from the server's OpenID
// configuration and verifies tokens with its keys. It may be started before the
// other server.
//
// It must not import the built-in authorization server.
//
// Imports: base/background, base/token, base/web.
package external
