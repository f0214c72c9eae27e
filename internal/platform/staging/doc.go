// Package staging makes droplets of packages. It chooses buildpacks, runs
// ingot-builder with them in an instance of an engine, and keeps what comes
// out.
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
// Java and sidecars: a Java virtual machine takes all the memory it is told of,
// so a sidecar without a memory of its own has none. Staging fails then, see
// platform.CheckSidecars. A custom buildpack asks for the same by the line
// "needs_sidecar_memory: true" in its manifest.yml, or in the
// deps/INDEX/config.yml that it writes. Of any other buildpack that is given by
// its URL nothing is known: staging warns, see platform.SidecarWarning.
//
// What comes from an application (the package, the droplet, result.json) is a
// stranger's: archives pass through package archive, everything is bounded.
//
// It must not import a face or a store.
//
// Imports: base/background, base/fault, base/safedial, platform,
// platform/actions, platform/archive, platform/blob, platform/engine,
// platform/initproto, platform/staging/buildpacks, platform/staging/lifecycle,
// github.com/google/uuid, github.com/klauspost/compress/gzip,
// go.yaml.in/yaml/v2.
package staging
