package limit

import "time"

// Rate is how many attempts are possible at once, and how quickly used ones come back.
type Rate struct {
	Burst     int
	PerSecond float64
}

// Bucket counts the used attempts of one caller. The zero value has all of them left. It is not
// safe for concurrent use.
type Bucket struct {
	used float64
	at   time.Time
}

// Used returns how many attempts are in use. Values in between come from the time that passed.
func (r Rate) Used(b *Bucket, now time.Time) float64 {
	if passed := now.Sub(b.at); passed > 0 {
		b.used = max(0, b.used-passed.Seconds()*r.PerSecond)
		b.at = now
	}
	return b.used
}

// Has reports whether an attempt is left.
func (r Rate) Has(b *Bucket, now time.Time) bool { return r.Used(b, now) <= float64(r.Burst)-1 }

// Take uses an attempt, if one is left.
func (r Rate) Take(b *Bucket, now time.Time) bool {
	if !r.Has(b, now) {
		return false
	}
	b.used++
	return true
}

// Wait returns how long it takes until an attempt is left.
func (r Rate) Wait(b *Bucket, now time.Time) time.Duration {
	missing := r.Used(b, now) + 1 - float64(r.Burst)
	return time.Duration(max(0, missing) / r.PerSecond * float64(time.Second))
}

// Give returns an attempt that does not count.
func (b *Bucket) Give() { b.used = max(0, b.used-1) }
