// Package background defines how the long-running parts of the server start and
// stop, and is the only way to start a goroutine.
//
//	new ──Start──▶ running ──Stop──▶ stopped
//	 └──────────────Stop───────────────▲
//
// Stop waits until all work has ended. It may be called any number of times, by
// several goroutines at once, and before Start; a stopped part never
// starts again. Package backgroundtest holds the stress test that every part
// passes under the race detector.
//
// A panic fails only the job in which it happens: it is recovered, logged with its
// stack, counted by Panics, and never ends the process. Go, Async and WaitGroup
// start goroutines that end; Part.Launch and Loop start loops that are restarted
// after a pause; Do converts a panic to an error.
//
// Imports: the standard library only.
package background
