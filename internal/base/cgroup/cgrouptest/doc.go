// Package cgrouptest checks control groups of version 2 on the machine that runs a test.
//
// Imports: the standard library only.
package cgrouptest
