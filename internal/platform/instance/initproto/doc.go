// Package initproto is the protocol between an engine and ingot-init, the first
// process of every instance.
//
//	engine ── spec.json ──▶ ingot-init ──▶ members (main process, sidecars)
//	engine ◀─ records ───── ingot-init     one line each: output and events
//	engine ◀─ state.json ── ingot-init     the newest state, for adoption
//	engine ── SIGTERM ────▶ ingot-init     stop, gracefully
//
// Records are lines of a stream with sequence numbers, so that a restarted server
// continues where it stopped. On this machine the stream is a directory of segment
// files that outlives both sides; elsewhere it can be standard output. Writer
// writes it and Reader reads it.
//
// Imports: base/background.
package initproto
