// Package faulttest puts faults between the parts of a server: calls fail, panic,
// hang until their context ends, or hang whatever their context says. Which call
// has which fault is drawn from a seed. Engines get theirs from package
// enginetest, channels from channeltest.
//
// Only tests import it.
//
// Imports: the standard library only.
package faulttest
