// Package channeltest is the conformance suite for implementations of
// notify.Channel.
//
// Only tests import it.
//
// Imports: base/faulttest, notify.
package channeltest
