// Package authtest holds the suite that every auth.Store must pass, whatever it
// keeps its data in. It is the contract of auth.Store in a form that can fail.
//
// The suite asks for an empty store for each of its parts and runs them all in
// parallel. It sees a store only through the interface.
//
// It may import auth, auth/scim, the standard library and go-cmp. It must not
// import a store or a database: those import it. Only tests may import it.
package authtest
