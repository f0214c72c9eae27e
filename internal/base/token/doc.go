// Package token verifies access tokens: signature, issuer, audience, times,
// revocation. Every API of Ingot uses it, with keys of the built-in
// authorization server or of any UAA-compatible one.
//
// It must not import packages that issue tokens (auth) or receive requests (web).
//
// Imports: base/fault, github.com/go-jose/go-jose/v4,
// github.com/go-jose/go-jose/v4/jwt, github.com/maypok86/otter/v2.
package token
