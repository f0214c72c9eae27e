// Package safedial decides which addresses the platform may connect to on
// behalf of its users. Whoever may name an address, of a log drain for example,
// could otherwise reach what only this machine should: its own administration,
// the neighbours in its network, a cloud's metadata.
//
// Imports: the standard library only.
package safedial
