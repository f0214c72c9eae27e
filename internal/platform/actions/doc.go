// Package actions implements the operations on the platform's nouns: create an app
// with its web process, scale it, assign a droplet, map a route, delete a space
// with everything in it. Each action takes a transaction, enforces the rules that
// concern several nouns, and records the audit event. The API and manifests use
// the same actions.
//
// The caller authorizes the user first. The package must not import the API or
// implementations of the store and the engine.
//
// Imports: base/fault, platform, github.com/google/uuid.
package actions
