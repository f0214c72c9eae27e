// Package fault is the one error type of Ingot: a code that machines compare,
// a message that users read, and a cause that only operators see.
//
// Every layer returns plain errors; the layer that knows what a failure means
// to the user wraps it once with New or Wrap. Package web turns the code into
// a status and a body, in one table. An error without a code is internal: the
// user learns nothing but an id that also stands in the log.
//
// Imports: the standard library only.
package fault
