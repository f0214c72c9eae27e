// Package uploads stores what clients upload through the v3 API: packages,
// droplets and buildpacks. Archives are checked before they are stored.
//
// It must not import adapters.
//
// Imports: base/fault, platform/api, platform/archive, platform/blob.
package uploads
