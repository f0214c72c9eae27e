// Package storetest holds the suite that every platform.Store must pass, whatever it
// keeps its data in. It is the contract of platform.Store in a form that can fail: what
// is stored comes back whole, which fields a query may name, what a reader sees,
// and that transactions are what they say.
//
// The suite asks for an empty store for each of its parts and runs them all in
// parallel. It sees a store only through the interface.
//
// It must not import a store or a database: those import it. Only tests may
// import it.
//
// Imports: base/fault, platform, github.com/google/go-cmp/cmp.
package storetest
