//go:build !unix

package main

// keepDescriptors has nothing to do on systems without inherited descriptors.
func keepDescriptors() error { return nil }
