//go:build !linux

package launch

// subscribe wakes a reader when something may have happened in the directory.
func subscribe(string) *subscription { return polled.subscribe() }
