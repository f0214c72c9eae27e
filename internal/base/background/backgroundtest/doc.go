// Package backgroundtest holds the conformance suite of background.Service.
//
// Only tests import it.
//
// Imports: base/background.
package backgroundtest
