// Package enginetest is the conformance suite of the engine interface: what every
// engine must do, however it runs instances. An engine's tests call Main
// and Run:
//
//	func TestMain(m *testing.M) { enginetest.Main(m) }
//
//	func TestEngine(t *testing.T) {
//		t.Parallel()
//		enginetest.Run(t, newEngine, enginetest.Options{…})
//	}
//
// The members of its instances are shell scripts and the program in member/,
// which Main builds beside ingot-init; they need sh, cat, ls and the like in the
// instance. Nothing sleeps: every step waits for its record.
//
// Tests of what an engine cannot do by its own Description (isolation, fixed ports)
// are skipped.
//
// The package must not import an engine.
//
// Imports: base/fault, base/faulttest, base/testkit, platform/engine,
// platform/instance/initproto.
package enginetest
