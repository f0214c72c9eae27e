// Package initproto is the language spoken between an engine and ingot-init, the
// first process of every instance.
//
//	engine ── spec.json ──▶ ingot-init ──▶ members (main process, sidecars)
//	engine ◀─ records ───── ingot-init     one line each: output and events
//	engine ◀─ state.json ── ingot-init     the newest state, for adoption
//	engine ── SIGTERM ────▶ ingot-init     stop, gracefully
//
// Records are lines of a stream with positions, so that a server that was away
// goes on where it stopped. On a machine the stream is a directory of segment
// files that outlives both sides; elsewhere it can be standard output. Writer and
// Reader keep it.
//
// Imports: base/background.
package initproto
