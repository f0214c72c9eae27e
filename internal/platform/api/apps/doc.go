// Package apps serves apps of the v3 API: processes and their instances, sidecars, tasks,
// deployments, revisions, environment variables and manifests.
//
// It must not import the store, nor package builds, which imports it.
//
// Imports: base/fault, base/web, platform, platform/actions,
// platform/api/listing, platform/api/orgs, platform/api/rest,
// platform/manifest, platform/series, platform/services.
package apps
