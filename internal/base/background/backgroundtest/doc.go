// Package backgroundtest is the conformance suite of background.Service.
//
// Only tests import it.
//
// Imports: base/background.
package backgroundtest
