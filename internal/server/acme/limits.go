package acme

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// An owner may order ownerBurst certificates at once, and then one every ownerEvery;
	// all together totalBurst and one every totalEvery. Let's Encrypt allows 300 orders in
	// three hours.
	ownerBurst = 30
	ownerEvery = 4 * time.Minute
	totalBurst = 150
	totalEvery = 45 * time.Second

	// A failed order is repeated after failedFirst, then after twice the time, and so on.
	failedFirst   = time.Minute
	failedLongest = 4 * time.Hour
	// loadAgain is the pause after a certificate could not be read from the database.
	loadAgain = 2 * time.Second

	// maxRemembered bounds the memory. Beyond it, what has been longest is forgotten.
	maxRemembered = 10_000
)

// limits bound how often certificates are ordered.
type limits struct {
	mu       sync.Mutex
	total    *rate.Limiter
	owners   map[string]*rate.Limiter
	failures map[string]failure // by subject
}

type failure struct {
	until time.Time
	pause time.Duration
}

func newLimits() limits {
	return limits{
		total:  rate.NewLimiter(rate.Every(totalEvery), totalBurst),
		owners: map[string]*rate.Limiter{}, failures: map[string]failure{},
	}
}

// recently returns an error if an order for a subject failed a short time ago.
func (l *limits) recently(subject string, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f, ok := l.failures[subject]; ok && now.Before(f.until) {
		return fmt.Errorf("an order for %s failed; the next try is at %s", subject, f.until.UTC().Format(time.TimeOnly))
	}
	return nil
}

// take counts an order. It returns an error if there are too many. The server's own names
// are not limited: there are few.
func (l *limits) take(owner string, now time.Time) error {
	if owner == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	mine, ok := l.owners[owner]
	if !ok {
		l.forgetOwners(now)
		mine = rate.NewLimiter(rate.Every(ownerEvery), ownerBurst)
		l.owners[owner] = mine
	}
	if mine.TokensAt(now) < 1 {
		return fmt.Errorf("its organization ordered %d certificates in a short time; one more is possible every %s",
			ownerBurst, ownerEvery)
	}
	if !l.total.AllowN(now, 1) {
		return fmt.Errorf("%d certificates were ordered in a short time; one more is possible every %s",
			totalBurst, totalEvery)
	}
	mine.AllowN(now, 1)
	return nil
}

// forgetOwners makes room: an owner with a full allowance needs no entry.
func (l *limits) forgetOwners(now time.Time) {
	if len(l.owners) < maxRemembered {
		return
	}
	for owner, one := range l.owners {
		if one.TokensAt(now) >= ownerBurst {
			delete(l.owners, owner)
		}
	}
}

// failed remembers the failure of an order, or else of a load, and returns how long the next
// one has to wait.
func (l *limits) failed(subject string, ordered bool, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, known := l.failures[subject]
	if !known && len(l.failures) >= maxRemembered {
		for other, one := range l.failures {
			if now.After(one.until) {
				delete(l.failures, other)
			}
		}
	}
	wait := loadAgain
	if ordered {
		f.pause = min(max(2*f.pause, failedFirst), failedLongest)
		wait = f.pause
	}
	f.until = now.Add(wait)
	l.failures[subject] = f
	return wait
}

func (l *limits) succeeded(subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.failures, subject)
}
