// Package source makes apps from what a user has, in the server: a zip of the app's files, a container
// image, or the sample that the program carries. It does what clients do with several requests: apply the
// manifest among the files, store a package, build it, and deploy the droplet when it is built.
//
//	zip ── check, manifest, .cfignore ─▶ app and routes ─▶ package ─┐
//	image, sample ──────────────────────────────────────────────────┴▶ build ─▶ job: deployment, running
//
//	api.go     routes, and whom they are for
//	deploy.go  from a request to a build and its job
//	apply.go   manifest, package and build, also for package gitpush
//	files.go   the app's files in a zip
//	sample.go  the sample
//
// It must not import implementations of the store or of engines.
//
// Imports: base/fault, base/limit, base/pushignore, base/token, base/web,
// platform, platform/actions, platform/api/apps, platform/api/builds,
// platform/api/rest, platform/manifest, platform/run/gitfetch,
// platform/services, platform/storage/archive, platform/storage/gitpack.
package source
