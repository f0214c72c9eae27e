// Package storetest is the conformance suite for implementations of notify.Store:
// stored data is returned unchanged, no message is claimed by two workers, no
// accepted message is lost, and none is counted twice.
//
// The suite requests an empty store for each of its tests and runs them all in
// parallel. Stores get a clock that only the suite moves, and can be
// reopened as after a crash.
//
// It must not import a store or a database: those import it. Only tests may
// import it.
//
// Imports: base/fault, base/testkit, notify, github.com/google/go-cmp/cmp,
// github.com/google/go-cmp/cmp/cmpopts, pgregory.net/rapid.
package storetest
