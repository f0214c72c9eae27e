// Package staging builds droplets from packages: it chooses buildpacks, runs
// ingot-builder with them in an instance, and stores the droplet. Builds is the
// queue: it takes builds from the store, also those that another server process
// left, and writes their results.
//
//	package ─┐
//	buildpacks ─┼─▶ instance, named like the build ──▶ droplet, build cache
//	cache ───┘         │ records                        result.json
//	                   └──▶ log lines, exit status
//
// The life of a build in this package:
//
//	         ┌─ an instance of that name runs: adopted ─┐
//	Stage ───┤                                          ├─▶ follow ─▶ collect ─▶ remove ─▶ Result
//	         └─ none: choose, fetch, start ─────────────┘     │          │
//	                                                          │          └─▶ remove ─▶ Failure
//	                      Stop, or the caller's context ends ─┴─▶ ErrInterrupted: the
//	                      instance goes on, and Stage of the same build adopts it
//
// Java and sidecars: a Java virtual machine uses all memory it is given, so a
// sidecar without its own memory limit is left with none. Staging fails then, see
// platform.CheckSidecars. A custom buildpack asks for the same by the line
// "needs_sidecar_memory: true" in its manifest.yml, or in the
// deps/INDEX/config.yml that it writes. Nothing is known about other buildpacks
// given by URL, or uploaded by an administrator: staging warns, see platform.SidecarWarning.
//
// What an application produces (the package, the droplet, result.json) is
// untrusted: archives are read with package archive, and everything is bounded.
//
// It must not import the API or implementations of the store and of engines.
//
// Imports: base/background, base/fault, base/safedial, base/tracing, platform,
// platform/actions, platform/engine, platform/instance/initproto,
// platform/manifest, platform/run/staging/buildpacks,
// platform/run/staging/lifecycle, platform/storage/archive,
// platform/storage/blob, platform/storage/deltas, github.com/google/uuid,
// github.com/klauspost/compress/gzip,
// github.com/prometheus/client_golang/prometheus, go.yaml.in/yaml/v2.
package staging
