// Package safedial decides which addresses the server may connect to on
// behalf of its users. Without it, a user who can specify an address, for example
// of a log drain, could reach internal targets: the server's own administration,
// other machines in its network, a cloud's metadata service.
//
// Imports: the standard library only.
package safedial
