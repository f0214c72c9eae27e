// Package engine is the interface to container engines. An engine runs instances:
// files, an environment, members (the main process and its sidecars), limits and
// ports. Everything inside an instance (supervision, health checks, codependence,
// exit records) is done by ingot-init, so that engines stay small and alike.
//
// Instances outlive the server: a restarted server lists them and continues reading
// their records where it stopped.
//
//	absent ──Start──▶ running ──ended by itself──▶ ended ──Remove──▶ absent
//	                     └─────────Remove (stops first)─────────────▲
//
// Package enginetest is the conformance suite of every engine.
//
// Engines are in the folders below. Of the platform they import this package, the domain
// types, local, initproto and archive.
//
// Imports: base/background, base/fault, platform, platform/instance/initproto.
package engine
