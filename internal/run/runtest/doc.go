// Package runtest holds the conformance suite of run.Service.
//
// It may import package run and the standard library; only tests import it.
package runtest
