package auth

import (
	"cmp"
	"math"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"
)

// Limits are the limits of the token endpoint. Zero values mean the defaults.
type Limits struct {
	// ClientRate and ClientBurst bound requests of one client from one address.
	ClientRate  float64 // 500 a second
	ClientBurst int     // 1000
	// AddressRate and AddressBurst bound wrong passwords, secrets and passcodes
	// from one address, for accounts that have not logged in from there.
	AddressRate  float64 // 1 a second
	AddressBurst int     // 100
	// AccountRate and AccountBurst bound wrong passwords and secrets of one
	// account, from all addresses that it has not logged in from.
	AccountRate  float64 // 1 a minute
	AccountBurst int     // 100
	// PairRate and PairBurst bound wrong passwords and secrets of one account from
	// one address, also between right ones.
	PairRate  float64 // 1 a minute
	PairBurst int     // 20
	// After LockoutAfter wrong passwords in a row an account is locked for an address
	// for LockoutFor, which doubles with each further one up to an hour. The count is
	// forgotten after a quiet hour or a right password.
	LockoutAfter int           // 5
	LockoutFor   time.Duration // 1 minute
}

func (l Limits) withDefaults() Limits {
	l.ClientRate, l.ClientBurst = cmp.Or(l.ClientRate, 500), cmp.Or(l.ClientBurst, 1000)
	l.AddressRate, l.AddressBurst = cmp.Or(l.AddressRate, 1), cmp.Or(l.AddressBurst, 100)
	l.AccountRate, l.AccountBurst = cmp.Or(l.AccountRate, 1.0/60), cmp.Or(l.AccountBurst, 100)
	l.PairRate, l.PairBurst = cmp.Or(l.PairRate, 1.0/60), cmp.Or(l.PairBurst, 20)
	l.LockoutAfter, l.LockoutFor = cmp.Or(l.LockoutAfter, 5), cmp.Or(l.LockoutFor, time.Minute)
	return l
}

// The longest lock, and when failures in a row are forgotten.
const (
	lockoutLongest = time.Hour
	lockoutForget  = time.Hour
)

// limiter limits the requests of clients by address: one client, such as cf,
// may be used by everyone.
type limiter struct {
	l       Limits
	now     func() time.Time
	servers func() int // that share the limits
	buckets *otter.Cache[string, *rate.Limiter]
}

func newLimiter(l Limits, now func() time.Time) *limiter {
	return &limiter{l: l.withDefaults(), now: now, servers: func() int { return 1 },
		buckets: otter.Must(&otter.Options[string, *rate.Limiter]{
			MaximumSize:      50_000,
			ExpiryCalculator: otter.ExpiryAccessing[string, *rate.Limiter](10 * time.Minute),
		})}
}

func (l *limiter) client(id, from string) error {
	n := max(1, l.servers())
	perSecond, burst := l.l.ClientRate/float64(n), max(1, l.l.ClientBurst/n)
	bucket, _ := l.buckets.ComputeIfAbsent(id+"\x00"+from, func() (*rate.Limiter, bool) {
		return rate.NewLimiter(rate.Limit(perSecond), burst), false
	})
	now := l.now()
	if bucket.Burst() != burst { // servers came or went
		bucket.SetLimitAt(now, rate.Limit(perSecond))
		bucket.SetBurstAt(now, burst)
	}
	if bucket.AllowN(now, 1) {
		return nil
	}
	missing := 1 - bucket.TokensAt(now)
	return limited(time.Duration(math.Max(1, missing/perSecond)*float64(time.Second)),
		"Too many requests of this client from this address.")
}
