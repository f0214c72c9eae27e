//go:build !unix

package main

// keepDescriptors has nothing to do where nothing is inherited unasked.
func keepDescriptors() error { return nil }
