// Package dump reads what the programs write that save and load databases: the statements of a
// dump, and messages about objects that could not be saved or loaded. Both contain names and texts of
// a tenant, who controls how many there are.
//
// The package must not import the broker, and connects to no server.
//
// Imports: the standard library only.
package dump
