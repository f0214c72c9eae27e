// Package actions implements the operations of the platform: create an app with
// its web process, scale it, assign a droplet, map a route, delete a space with
// everything in it. Each action takes a transaction, enforces the rules that
// concern several types (quotas, unique names, deployments in progress), and
// records the audit event. The API and manifests use the same actions.
//
// It also computes the environment of an app (environment.go: VCAP_APPLICATION,
// VCAP_SERVICES, DATABASE_URL) and loads what a caller may do (users.go).
//
// The caller authorizes the user first. The package must not import the API or
// implementations of the store and the engine.
//
// Imports: base/db, base/fault, base/safedial, base/suggest, base/tracing,
// platform, platform/actions/metering, platform/instance/initproto,
// github.com/google/uuid.
package actions
