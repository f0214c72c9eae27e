// Package brokertest is a service broker for tests, in memory. Its plans succeed at
// once, later, never or slowly, or answer garbage; a test can inspect its instances
// and replace its answers.
//
// Imports: the standard library only.
package brokertest
