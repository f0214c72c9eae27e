package token

import "time"

// SetClock lets tests move the clock of the key cache.
func SetClock(r *RemoteKeys, now func() time.Time) { r.now = now }
