// Package sampletest contains the shared code of the tests of samples: an authority
// that gives instances certificates as the platform does.
package sampletest
