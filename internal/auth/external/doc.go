// Package external replaces the built-in authorization server if another one is
// configured, a UAA or another Ingot (--auth-url): it reads the issuer from that
// server's OpenID configuration and verifies tokens with its keys. It may be started
// before the other server.
//
// It must not import the built-in authorization server.
//
// Imports: base/background, base/token, base/web.
package external
