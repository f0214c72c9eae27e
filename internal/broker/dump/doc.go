// Package dump reads the output of the programs that save and load databases: the statements of a
// dump, and messages about objects that could not be saved or loaded. Both contain a tenant's names and
// texts, in any number.
//
// The package must not import the broker, and connects to no server.
//
// Imports: base/pattern.
package dump
