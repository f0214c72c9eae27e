// Package services serves service brokers, offerings, plans, service instances and bindings
// of the v3 API, and the rotation of their credentials. Package platform/services runs the
// jobs.
//
// It must not import the store.
//
// Imports: base/fault, base/web, platform, platform/actions, platform/api/apps,
// platform/api/listing, platform/api/orgs, platform/api/rest,
// platform/api/routes, platform/services.
package services
