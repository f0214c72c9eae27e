// Package builds serves packages, builds and droplets of the v3 API, with their uploads and
// downloads, and the buildpacks and stacks that build them.
//
// Blobs stores the files; package uploads implements it. This package must not import the
// store or storage.
//
// Imports: base/fault, base/pattern, base/web, platform, platform/actions,
// platform/api/apps, platform/api/listing, platform/api/rest,
// github.com/google/uuid.
package builds
