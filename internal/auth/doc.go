// Package auth is the authorization server: it stores clients, users and
// groups, authenticates them, and issues the tokens that every API of Ingot
// accepts. It implements the part of UAA's OAuth 2.0, OpenID Connect and SCIM
// endpoints that Cloud Foundry clients use.
//
//	grants     client_credentials, password (and passcode), refresh_token,
//	           authorization_code with PKCE, jwt-bearer
//	states of a refresh token
//	           active ──used──▶ rotated ──used after the grace period──▶ family revoked
//	             └───────────revoked or expired────────────▶ deleted
//	states of a one-time code
//	           fresh ──redeemed──▶ used ──redeemed again──▶ tokens of the first use revoked
//	states of a signing key
//	           signing ──rotated──▶ verifying only ──its last token expired──▶ deleted
//
// A login to the ssh gateway also starts here: /oauth/authorize issues a one-time
// code, and /oauth/token exchanges it for the user's token.
//
// It must not import its store (data is accessed through Store), the platform or
// the notification service: those work with any other UAA as well.
//
// Imports: auth/scim, base/background, base/fault, base/limit, base/look,
// base/pattern, base/token, base/version, base/web,
// github.com/go-jose/go-jose/v4, github.com/go-jose/go-jose/v4/jwt,
// github.com/google/uuid, github.com/maypok86/otter/v2,
// github.com/prometheus/client_golang/prometheus, golang.org/x/crypto/argon2,
// golang.org/x/crypto/bcrypt, golang.org/x/time/rate.
package auth
