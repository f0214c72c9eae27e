package apps

import "time"

// sizeChanges returns a channel that receives a value when the size of the terminal may
// have changed. Windows sends no signal, so it is a clock.
func sizeChanges() <-chan struct{} {
	changed := make(chan struct{})
	go func() {
		for range time.Tick(250 * time.Millisecond) {
			changed <- struct{}{}
		}
	}()
	return changed
}
