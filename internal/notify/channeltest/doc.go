// Package channeltest holds the contract of notify.Channel as tests.
//
// It may import package notify and the standard library; only tests import it.
package channeltest
