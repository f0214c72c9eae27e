// Package faulttest puts faults between the parts of a server: calls of engines,
// brokers and channels fail, panic, hang until their context ends, or hang
// whatever their context says. Which call has which fault is drawn from a seed.
//
// It may import engine, notify and the standard library; only tests import it.
package faulttest
