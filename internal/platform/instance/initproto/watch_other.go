//go:build !linux

package initproto

// subscribe wakes a reader when the directory may have changed.
func subscribe(string) *subscription { return polled.subscribe() }
