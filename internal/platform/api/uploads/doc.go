// Package uploads stores what clients upload through the v3 API: packages,
// droplets and buildpacks. Archives are checked before they are stored, and the
// files of a package that the client left out, because the pool of package blob has
// them, are merged into it.
//
// It must not import the store.
//
// Imports: base/background, base/fault, platform/api/builds,
// platform/storage/archive, platform/storage/blob, platform/storage/deltas.
package uploads
