//go:build !forceposix

package main

// The library for flags takes '/v3/apps' for a flag on Windows, unless it is built with this
// tag.
func init() { panic("build ingot for Windows with '-tags forceposix'") }
