// Package brokertest is a service broker for tests, in memory: its plans work
// at once, later, never, slowly, or answer garbage, and a test can look at what
// it has and put other answers in its mouth.
//
// Imports: the standard library only.
package brokertest
