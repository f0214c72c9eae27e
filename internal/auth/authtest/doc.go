// Package authtest holds the suite that every auth.Store must pass, whatever it
// keeps its data in. It is the contract of auth.Store in a form that can fail.
//
// The suite asks for an empty store for each of its parts and runs them all in
// parallel. It sees a store only through the interface.
//
// It must not import a store or a database: those import it. Only tests may
// import it.
//
// Imports: auth, auth/scim, github.com/google/go-cmp/cmp,
// github.com/google/go-cmp/cmp/cmpopts.
package authtest
