//go:build !linux

package initproto

// subscribe wakes a reader when something may have happened in the directory.
func subscribe(string) *subscription { return polled.subscribe() }
