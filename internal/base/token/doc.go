// Package token verifies access tokens: signature, issuer, audience, times,
// revocation. Every API of Ingot uses it, with keys of the built-in
// authorization server or of any UAA-compatible one.
//
// It may import package fault and go-jose; it must not know how tokens are
// made (package auth) or how requests arrive (package web).
package token
