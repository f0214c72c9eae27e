// Package actions is what can be done to the platform's nouns: create an app
// with its web process, scale it, assign a droplet, map a route, delete a
// space with all that is in it. Each action takes a transaction, keeps the
// rules that concern several nouns, and records the audit event. The API and
// manifests use the same actions.
//
// Who may do it was decided by the caller. It must not import faces or
// adapters.
//
// Imports: base/fault, platform, github.com/google/uuid.
package actions
