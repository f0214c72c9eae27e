// Package background is the contract of everything in Ingot that keeps running: how
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
// It is also the only way to start a goroutine in the server. Whatever happens
// in one is the failure of that one job: a panic is recovered, logged with its
// stack and counted by Panics, and never ends the process. Go, Async and
// WaitGroup start goroutines that end; Part.Launch and Loop start loops that go
// on after a rest; Do makes an error of a panic where a job is worked on.
//
// Imports: the standard library only.
package background
