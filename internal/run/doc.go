// Package run is the contract of everything in Ingot that keeps running: how
// it starts and how it stops.
//
//	new ──Start──▶ running ──Stop──▶ stopped
//	 └──────────────Stop───────────────▲
//
// Stop waits until all work has ended, may be called any number of times, by
// several goroutines at once, and before Start; a part that was stopped never
// starts again. Package runtest holds the stress test that every part passes
// under the race detector.
//
// It may import the standard library only.
package run
