// Package netrules tells the engine what instances may connect to: it reads the
// security groups and network policies in the store and passes them on whenever
// they changed.
//
//	action ── Changes.Rules ─▶ Keeper ── engine.Rules ─▶ engine
//	                            ▲ timer
//
// It must not import an engine.
//
// Imports: base/background, base/db, platform, platform/engine.
package netrules
