// Package admin serves feature flags, jobs, audit events and usage events of the v3 API.
//
// It must not import the store.
//
// Imports: base/fault, base/web, platform, platform/actions/metering,
// platform/api/listing, platform/api/rest, platform/services.
package admin
