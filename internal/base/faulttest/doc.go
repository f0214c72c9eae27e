// Package faulttest injects faults into a server: calls fail, panic,
// hang until their context is done, or hang forever. A seed determines which call
// gets which fault. Engines get theirs from package enginetest, channels from
// channeltest.
//
// Only tests import it.
//
// Imports: the standard library only.
package faulttest
