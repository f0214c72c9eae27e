// Package auth is the authorization server: it knows clients, users and
// groups, proves who they are, and issues the tokens that every API of Ingot
// accepts. It speaks UAA's dialect of OAuth2, OpenID Connect and SCIM as far
// as the clients of Cloud Foundry use it.
//
//	grants     client_credentials, password (and passcode), refresh_token,
//	           authorization_code with PKCE, jwt-bearer
//	life of a refresh token
//	           active ──used──▶ rotated ──(grace over, used again)──▶ family revoked
//	             └───────────revoked or expired────────────▶ gone
//	life of a one-time code
//	           fresh ──taken──▶ used ──taken again──▶ tokens of the first use revoked
//	life of a signing key
//	           signing ──rotated──▶ verifying only ──its last token expired──▶ gone
//
// It must not import adapters (what it stores goes through Store) nor the
// platform or the notification service: those could use any other UAA instead.
//
// Imports: auth/scim, base/background, base/fault, base/token, base/version,
// base/web, github.com/go-jose/go-jose/v4, github.com/go-jose/go-jose/v4/jwt,
// github.com/google/uuid, github.com/maypok86/otter/v2,
// github.com/prometheus/client_golang/prometheus, golang.org/x/crypto/argon2,
// golang.org/x/crypto/bcrypt, golang.org/x/time/rate.
package auth
