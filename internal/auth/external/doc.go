// Package external verifies tokens of an authorization server outside of this
// process: a UAA, or another Ingot (--auth-url). It reads the issuer from the
// server's OpenID configuration and verifies tokens with its keys. It may be
// started before the other server.
//
// It must not import the built-in authorization server.
//
// Imports: base/background, base/token, base/web.
package external
