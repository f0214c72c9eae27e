// Package storetest contains the tests that every implementation of platform.Store
// must pass: data is returned unchanged, queries accept the documented fields, a
// reader sees what the permissions allow, and transactions are atomic and isolated.
//
// The suite asks for an empty store for each of its parts and runs them all in
// parallel. It sees a store only through the interface.
//
// It must not import a store or a database: those import it. Only tests may
// import it.
//
// Imports: base/fault, platform, github.com/google/go-cmp/cmp.
package storetest
