// Package channeltest holds the contract of notify.Channel as tests.
//
// Only tests import it.
//
// Imports: base/faulttest, notify.
package channeltest
