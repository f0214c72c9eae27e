// Package storetest holds the suite that every notify.Store must pass, whatever
// it keeps its data in. It is the contract of notify.Store in a form that can
// fail: what is stored comes back whole, nobody gets a message that another
// holds, nothing accepted is lost and nothing is counted twice.
//
// The suite asks for an empty store for each of its parts and runs them all in
// parallel. Stores are given a clock that only the suite moves, and can be
// opened again as after a crash.
//
// It must not import a store or a database: those import it. Only tests may
// import it.
//
// Imports: base/fault, notify, github.com/google/go-cmp/cmp,
// github.com/google/go-cmp/cmp/cmpopts, pgregory.net/rapid.
package storetest
