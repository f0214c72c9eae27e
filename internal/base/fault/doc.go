// Package fault defines the error type of Ingot: a code for machines, a message
// for users, and a cause that only operators see.
//
// Every layer returns plain errors; the layer that knows what a failure means
// to the user wraps it once with New or Wrap. Package web maps the code to
// a status and a body, in one table. An error without a code is internal: the
// user sees only an id, which is also in the log.
//
// Imports: the standard library only.
package fault
