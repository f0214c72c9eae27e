// Package backgroundtest holds the conformance suite of background.Service.
//
// It may import package run and the standard library; only tests import it.
package backgroundtest
