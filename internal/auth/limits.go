package auth

import (
	"math"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"ingot/internal/fault"
)

// Limits bound the token endpoint. Zero values mean the defaults.
type Limits struct {
	// ClientRate and ClientBurst bound requests of one client.
	ClientRate  float64
	ClientBurst int
	// UserRate and UserBurst bound logins as one user.
	UserRate  float64
	UserBurst int
	// GuessRate and GuessBurst bound secrets of one client that have not
	// been right before, so that guessing neither succeeds nor keeps the
	// processor busy, while the client itself goes on.
	GuessRate  float64
	GuessBurst int
}

func (l Limits) withDefaults() Limits {
	set := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	setInt := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&l.ClientRate, 500)
	setInt(&l.ClientBurst, 1000)
	set(&l.UserRate, 2)
	setInt(&l.UserBurst, 30)
	set(&l.GuessRate, 1)
	setInt(&l.GuessBurst, 20)
	return l
}

// limiter keeps one token bucket for each name; names not heard of for a while
// are forgotten.
type limiter struct {
	l       Limits
	now     func() time.Time
	buckets *otter.Cache[string, *rate.Limiter]
}

func newLimiter(l Limits, now func() time.Time) *limiter {
	return &limiter{l: l.withDefaults(), now: now, buckets: otter.Must(&otter.Options[string, *rate.Limiter]{
		MaximumSize:      50_000,
		ExpiryCalculator: otter.ExpiryAccessing[string, *rate.Limiter](10 * time.Minute),
	})}
}

func (l *limiter) client(id string) error {
	return l.take("c:"+id, l.l.ClientRate, l.l.ClientBurst, "Too many requests of this client.")
}

func (l *limiter) user(name string) error {
	return l.take("u:"+strings.ToLower(name), l.l.UserRate, l.l.UserBurst, "Too many logins of this user.")
}

func (l *limiter) guess(clientID string) error {
	return l.take("g:"+clientID, l.l.GuessRate, l.l.GuessBurst, "Too many different secrets for this client.")
}

func (l *limiter) take(name string, perSecond float64, burst int, message string) error {
	bucket, _ := l.buckets.ComputeIfAbsent(name, func() (*rate.Limiter, bool) {
		return rate.NewLimiter(rate.Limit(perSecond), burst), false
	})
	now := l.now()
	if bucket.AllowN(now, 1) {
		return nil
	}
	missing := 1 - bucket.TokensAt(now)
	wait := time.Duration(math.Max(1, missing/perSecond) * float64(time.Second))
	return fault.New(fault.RateLimited, "%s Try again in %d seconds.", message, int(math.Ceil(wait.Seconds()))).
		WithKind("too_many_requests").After(wait)
}

// Lockout of users: after a few wrong passwords the account is closed for a
// while that doubles with each further failure. The count is forgotten after
// a quiet hour or a right password.
const (
	lockoutAfter   = 5
	lockoutFirst   = time.Minute
	lockoutLongest = time.Hour
	lockoutForget  = time.Hour
)

// failed records a wrong password.
func (s *LoginState) failed(now time.Time) {
	if now.Sub(s.LastFailure) > lockoutForget {
		s.Failures = 0
	}
	s.Failures++
	s.LastFailure = now
	if over := s.Failures - lockoutAfter; over >= 0 {
		wait := lockoutLongest
		if over < 6 { // 1 minute doubled six times is more than the longest
			wait = lockoutFirst << over
		}
		s.LockedUntil = now.Add(min(wait, lockoutLongest))
	}
}

// succeeded records a login.
func (s *LoginState) succeeded(now time.Time) {
	s.Previous, s.Last = s.Last, now
	s.Failures, s.LastFailure, s.LockedUntil = 0, time.Time{}, time.Time{}
}

func (s *LoginState) locked(now time.Time) bool { return now.Before(s.LockedUntil) }
