package clock

import "time"

// began is the time at which the process started, with the reading of the monotonic clock.
var began = time.Now()

// Steady returns the time at which the process started plus the time that has passed since.
// It differs from the machine's clock after that has been set, until the process is
// restarted; so it is for leases and due times, and not for times that users see.
func Steady() time.Time { return began.Round(0).Add(time.Since(began)) }
