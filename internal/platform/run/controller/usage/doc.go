// Package usage measures what instances use: memory, disk, and rates of processor time and output, of an
// instance and of each of its members.
//
// The package must not import the controller: it gets instances by their ids.
//
// Imports: base/background, base/clock, platform/engine,
// platform/instance/initproto.
package usage
