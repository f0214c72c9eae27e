// Package authtest is the conformance suite for implementations of auth.Store.
//
// The suite requests an empty store for each of its tests and runs them all in
// parallel. It accesses a store only through the interface.
//
// It must not import a store or a database: those import it. Only tests may
// import it.
//
// Imports: auth, auth/scim, github.com/google/go-cmp/cmp,
// github.com/google/go-cmp/cmp/cmpopts.
package authtest
