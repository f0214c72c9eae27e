// Package engine is the seam to what runs containers. An engine runs
// instances: files, an environment, members (the main process and its
// sidecars), limits and ports. Everything that depends on the inside of an
// instance (supervision, health checks, codependence, exit records) is in
// ingot-init, so that engines stay thin and alike.
//
// Instances outlive the server: a server that comes back lists them and reads
// their records on from where it stopped.
//
//	absent ──Start──▶ running ──ended by itself──▶ ended ──Remove──▶ absent
//	                     └─────────Remove (stops first)─────────────▲
//
// Package enginetest is the conformance suite of every engine.
//
// Engines live in folders below and import nothing else of the platform but
// initproto and archive.
//
// Imports: base/background, platform/initproto.
package engine
