// Package sample holds what the sample apps have in common: to serve until the
// platform ends them, to answer with JSON, to ask for a password, and to
// read the services that are bound to them.
//
// It may import the standard library only, and only samples import it: whoever
// copies a sample copies this small folder with it.
package sample
