package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"ingot/internal/base/fault"
	"ingot/internal/base/limit"
)

// secretGuard checks passwords and client secrets, and limits guesses without
// allowing attackers to lock out the owner.
//
//   - A pair is an account and an address. After five wrong secrets in a row the
//     pair is locked for a while that doubles; other addresses are not. However
//     often the owner succeeds in between, a pair has a bounded number of wrong
//     secrets in an hour.
//   - An address that the account has not logged in from shares two more
//     bounds: wrong secrets from the address for any account, and wrong
//     secrets for the account from any such address (the brake).
//   - A secret that was right before is known by a keyed hash in memory and
//     costs nothing; it also passes where the pair is locked. Each comparison
//     that fails counts as a wrong secret all the same, so that it is not a
//     cheaper way to guess.
//   - A wrong secret that is sent again is not another guess: it is not counted,
//     so that a job with an old password does not lock out those beside it that
//     have the new one.
//
// Counters are in memory, reset by a restart. Servers that share a store count failures of
// existing accounts in rows, and divide the other limits among themselves.
type secretGuard struct {
	limits     Limits
	rows       *failureRows // nil if there is no other server
	servers    func() int   // that share the limits
	now        func() time.Time
	hash       *hasher
	remembered *remembered

	mu sync.Mutex
	// accounts exist; strangers are unknown names. They are stored separately,
	// so that invented names cannot evict real accounts.
	accounts  *otter.Cache[string, *account]
	strangers *otter.Cache[string, *account]
	addresses *otter.Cache[string, *limit.Bucket]
	checks    map[[sha256.Size]byte]*check
}

// subject is the account whose secret is checked.
type subject struct {
	key    string // names the account
	exists bool
	client bool
	hashes []string // of which the secret must have one
	// open means that the secret protects nothing, as that of the client cf: it
	// is empty.
	open bool
}

// account holds the login attempts of one account.
type account struct {
	brake limit.Bucket
	pairs map[string]*pair
}

// pair is an account at an address.
type pair struct {
	proven   time.Time    // the last success
	used     time.Time    // the last try
	failures int          // in a row
	failed   time.Time    // the last failure
	locked   time.Time    // until then
	trying   int          // checks under way
	recent   limit.Bucket // of failures, also between successes
	cleared  time.Time    // when failures at other servers were forgotten
	wrong    [wrongKept]uint64
	wrongs   int           // how many were added to wrong
	freed    chan struct{} // closed when an attempt ends; nil if no other waits for that
}

// check is a comparison in progress, shared by all identical requests.
type check struct {
	done chan struct{}
	ok   bool
	err  error
}

const (
	maxPairs         = 512 // of an account
	maxStrangerPairs = 16
	// provenFor is how long an address counts as one that the account logs in
	// from: longer than holidays, because only such an address is safe from what
	// attackers do elsewhere.
	provenFor = 30 * 24 * time.Hour
	// wrongKept is how many wrong secrets of a pair are recognized when they are
	// sent again.
	wrongKept = 4
	// trialWait is how long an attempt waits for others of the same pair.
	trialWait = 10 * time.Second
)

func newSecretGuard(l Limits, now func() time.Time, hash *hasher) *secretGuard {
	accounts := func(size int, forget time.Duration) *otter.Cache[string, *account] {
		return otter.Must(&otter.Options[string, *account]{MaximumSize: size,
			ExpiryCalculator: otter.ExpiryAccessing[string, *account](forget)})
	}
	return &secretGuard{
		limits: l.withDefaults(), servers: func() int { return 1 }, now: now, hash: hash, remembered: newRemembered(),
		accounts: accounts(100_000, provenFor), strangers: accounts(50_000, lockoutForget),
		addresses: otter.Must(&otter.Options[string, *limit.Bucket]{MaximumSize: 100_000,
			ExpiryCalculator: otter.ExpiryAccessing[string, *limit.Bucket](10 * time.Minute)}),
		checks: map[[sha256.Size]byte]*check{},
	}
}

// share returns the share that this server has in a limit.
func (g *secretGuard) share(burst int, rate float64) limit.Rate {
	n := max(1, g.servers())
	return limit.Rate{Burst: max(1, burst/n), PerSecond: rate / float64(n)}
}

func (g *secretGuard) pairs() limit.Rate { return g.share(g.limits.PairBurst, g.limits.PairRate) }

func (g *secretGuard) ofAddress() limit.Rate {
	return g.share(g.limits.AddressBurst, g.limits.AddressRate)
}

func (g *secretGuard) ofAccount() limit.Rate {
	return g.share(g.limits.AccountBurst, g.limits.AccountRate)
}

// prove reports whether secret is the subject's. The error means that the
// attempt was rejected for now, or that the check failed.
func (g *secretGuard) prove(ctx context.Context, who subject, from, secret string) (bool, error) {
	if len(secret) > maxSecretBytes {
		return false, nil
	}
	if g.cheap(who, from, secret) {
		return true, g.forgetNow(ctx, who, from)
	}
	key := g.checkKey(who, from, secret)
	if g.repeats(who, from, key) {
		return false, nil
	}
	for {
		g.mu.Lock()
		c, underWay := g.checks[key]
		if !underWay {
			c = &check{done: make(chan struct{}), err: errAbandoned}
			g.checks[key] = c
		}
		g.mu.Unlock()
		if !underWay {
			g.lead(ctx, c, key, who, from, secret)
			return c.ok, c.err
		}
		select {
		case <-c.done:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		// If the request that started the check was canceled, another one
		// repeats it.
		if abandoned(c.err) {
			continue
		}
		return c.ok, c.err
	}
}

var errAbandoned = errors.New("secret check abandoned")

func abandoned(err error) bool {
	return errors.Is(err, errAbandoned) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// lead runs the check that other requests may wait for.
func (g *secretGuard) lead(ctx context.Context, c *check, key [sha256.Size]byte, who subject, from, secret string) {
	defer func() {
		g.mu.Lock()
		delete(g.checks, key)
		g.mu.Unlock()
		close(c.done)
	}()
	if c.ok, c.err = g.compare(ctx, who, from, secret); !c.ok && c.err == nil {
		g.wasWrong(who, from, key)
	}
}

// repeats reports whether the same secret was wrong before.
func (g *secretGuard) repeats(who subject, from string, key [sha256.Size]byte) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.account(who).pair(from, g.now(), who.exists)
	return slices.Contains(p.wrong[:min(p.wrongs, wrongKept)], binary.BigEndian.Uint64(key[:]))
}

func (g *secretGuard) wasWrong(who subject, from string, key [sha256.Size]byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.account(who).pair(from, g.now(), who.exists)
	p.wrong[p.wrongs%wrongKept] = binary.BigEndian.Uint64(key[:])
	p.wrongs++
}

// checkKey identifies a comparison. It is keyed, because it covers the secret.
func (g *secretGuard) checkKey(who subject, from, secret string) (d [sha256.Size]byte) {
	m := hmac.New(sha256.New, g.remembered.key[:])
	for _, part := range append([]string{who.key, from, secret}, who.hashes...) {
		_, _ = m.Write([]byte(part))
		_, _ = m.Write([]byte{0})
	}
	copy(d[:], m.Sum(nil))
	return d
}

// cheap reports whether the secret was verified before, at an address that the
// account logs in from. Otherwise the secret is compared, and counted.
func (g *secretGuard) cheap(who subject, from, secret string) bool {
	if !who.exists {
		return false
	}
	g.mu.Lock()
	p := g.account(who).pair(from, g.now(), who.exists)
	now := g.now()
	fits := p.isProven(now) && g.pairs().Has(&p.recent, now)
	g.mu.Unlock()
	if !fits || !g.remembered.knowsAny(who.hashes, secret) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p.succeed(now)
	return true
}

// compare is the complete check: limits, cache, hash.
func (g *secretGuard) compare(ctx context.Context, who subject, from, secret string) (bool, error) {
	if err := g.load(ctx, who, from); err != nil {
		return false, err
	}
	t, err := g.begin(ctx, who, from)
	if err != nil {
		return false, err
	}
	ok := who.exists && g.remembered.knowsAny(who.hashes, secret)
	if !ok && t.locked {
		g.end(t, false)
		return false, t.lockedError(who, g.now())
	}
	for _, hash := range who.hashes {
		if ok || err != nil {
			break
		}
		if ok, err = g.hash.matches(ctx, turn{from, t.proven}, hash, secret); ok && who.exists {
			g.remembered.add(hash, secret)
		}
	}
	ok = ok && who.exists
	if err == nil {
		err = g.count(ctx, who, from, t, ok)
	}
	if err != nil {
		g.undo(t)
		return false, err
	}
	g.end(t, ok)
	return ok, nil
}

// try is an allowed attempt. It takes from the limits and gives back unless the
// secret is wrong.
type try struct {
	account *account
	pair    *pair
	address *limit.Bucket // nil when it took none
	brake   bool
	recent  bool
	proven  bool
	locked  bool
	client  bool
}

// begin takes an attempt from the limits, or returns an error. It waits for other
// attempts of the pair whose failure could lock it.
func (g *secretGuard) begin(ctx context.Context, who subject, from string) (*try, error) {
	var patience *time.Timer
	defer func() {
		if patience != nil {
			patience.Stop()
		}
	}()
	for {
		t, wait, err := g.tryNow(who, from)
		if wait == nil {
			return t, err
		}
		if patience == nil {
			patience = time.NewTimer(trialWait)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-patience.C:
			return nil, limited(time.Second, "Too many logins of this account at once.")
		}
	}
}

// tryNow takes an attempt from the limits. If it has to wait for another attempt, it
// returns a channel that is closed when one ends.
func (g *secretGuard) tryNow(who subject, from string) (t *try, wait <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	a := g.account(who)
	p := a.pair(from, now, who.exists)
	t = &try{account: a, pair: p, proven: p.isProven(now), locked: now.Before(p.locked), client: who.client}
	if t.locked && !t.proven && !who.open {
		return nil, nil, t.lockedError(who, now)
	}
	// At most as many concurrent attempts as could fail without a lock, or one
	// after a lock.
	if !who.open && p.trying >= max(1, g.limits.LockoutAfter-p.failures) {
		if p.freed == nil {
			p.freed = make(chan struct{})
		}
		return nil, p.freed, nil
	}
	if err := g.takeFrom(t, who, from, now); err != nil {
		g.giveBack(t)
		return nil, nil, err
	}
	p.trying++
	return t, nil, nil
}

// takeFrom takes the attempt from all limits that apply. If one has none left, it
// returns an error, and t has what was taken.
func (g *secretGuard) takeFrom(t *try, who subject, from string, now time.Time) error {
	if !who.open {
		if !g.pairs().Take(&t.pair.recent, now) {
			return limited(g.pairs().Wait(&t.pair.recent, now), "Too many wrong passwords for this account from this address.")
		}
		t.recent = true
	}
	if t.proven {
		return nil
	}
	address := g.address(from)
	if !g.ofAddress().Take(address, now) {
		return limited(g.ofAddress().Wait(address, now), "Too many failed logins from this address.")
	}
	t.address = address
	if !who.open {
		if !g.ofAccount().Take(&t.account.brake, now) {
			return limited(g.ofAccount().Wait(&t.account.brake, now),
				"Too many failed logins of this account from addresses it has not logged in from.")
		}
		t.brake = true
	}
	return nil
}

// lockedError is UAA's error for users, which cf recognizes; clients get a 429.
func (t *try) lockedError(who subject, now time.Time) error {
	wait := max(t.pair.locked.Sub(now), time.Second)
	if who.client {
		return limited(wait, "Too many wrong secrets for this client from this address.")
	}
	return fault.New(fault.Unauthenticated, lockedText).WithKind("unauthorized").After(wait)
}

func limited(wait time.Duration, why string) error {
	wait = max(wait, time.Second)
	return fault.New(fault.RateLimited, "%s Try again in %d seconds.", why, int(math.Ceil(wait.Seconds()))).
		WithKind("too_many_requests").After(wait)
}

func (g *secretGuard) giveBack(t *try) {
	if t.recent {
		t.pair.recent.Give()
	}
	if t.address != nil {
		t.address.Give()
	}
	if t.brake {
		t.account.brake.Give()
	}
}

// undo gives back the attempt of a check without a result.
func (g *secretGuard) undo(t *try) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.pair.leave()
	g.giveBack(t)
}

// leave ends an attempt.
func (p *pair) leave() {
	p.trying--
	if p.freed != nil {
		close(p.freed)
		p.freed = nil
	}
}

// end records the result.
func (g *secretGuard) end(t *try, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t.pair.leave()
	if ok {
		g.giveBack(t)
		t.pair.succeed(g.now())
	} else if !t.locked {
		g.fail(t.pair, g.now(), t.client)
	}
}

// proved records that the account logged in from the address without its
// secret.
func (g *secretGuard) proved(who subject, from string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	g.account(who).pair(from, now, true).proven = now
}

// isLocked reports whether an address is locked for the account, or the
// account's limit is reached.
func (g *secretGuard) isLocked(who subject) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	a := g.account(who)
	for _, p := range a.pairs {
		if now.Before(p.locked) || !g.pairs().Has(&p.recent, now) {
			return true
		}
	}
	return !g.ofAccount().Has(&a.brake, now)
}

// unlock resets the failures of an account.
func (g *secretGuard) unlock(who subject) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.account(who)
	a.brake = limit.Bucket{}
	for _, p := range a.pairs {
		p.failures, p.failed, p.locked, p.recent = 0, time.Time{}, time.Time{}, limit.Bucket{}
	}
}

// takeCodeAttempt takes an attempt to guess a one-time code, which belongs to no
// account, from the limit of the address. A correct one is given back.
func (g *secretGuard) takeCodeAttempt(from string) (giveBack func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, address := g.now(), g.address(from)
	if !g.ofAddress().Take(address, now) {
		return nil, limited(g.ofAddress().Wait(address, now), "Too many failed logins from this address.")
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		address.Give()
	}, nil
}

func (g *secretGuard) account(who subject) *account {
	cache := g.accounts
	if !who.exists {
		cache = g.strangers
	}
	a, _ := cache.ComputeIfAbsent(who.key, func() (*account, bool) { return &account{pairs: map[string]*pair{}}, false })
	return a
}

func (g *secretGuard) address(from string) *limit.Bucket {
	b, _ := g.addresses.ComputeIfAbsent(from, func() (*limit.Bucket, bool) { return &limit.Bucket{}, false })
	return b
}

// pair returns the pair of an address. If there are too many, the one unused
// for longest is removed, first those that never succeeded.
func (a *account) pair(from string, now time.Time, exists bool) *pair {
	p := a.pairs[from]
	if p == nil {
		most := maxStrangerPairs
		if exists {
			most = maxPairs
		}
		if len(a.pairs) >= most {
			a.forgetOne(now)
		}
		p = &pair{}
		a.pairs[from] = p
	}
	p.used = now
	return p
}

func (a *account) forgetOne(now time.Time) {
	var oldest string
	for address, p := range a.pairs {
		if p.trying > 0 {
			continue
		}
		o := a.pairs[oldest]
		if o == nil || o.isProven(now) && !p.isProven(now) || o.isProven(now) == p.isProven(now) && p.used.Before(o.used) {
			oldest = address
		}
	}
	delete(a.pairs, oldest)
}

func (p *pair) isProven(now time.Time) bool {
	return !p.proven.IsZero() && now.Sub(p.proven) < provenFor
}

func (p *pair) succeed(now time.Time) {
	p.proven = now
	p.failures, p.failed, p.locked = 0, time.Time{}, time.Time{}
}

// fail counts a wrong secret and locks the pair after a few. A client, which
// tries again by itself, is not locked for longer than the first time.
func (g *secretGuard) fail(p *pair, now time.Time, client bool) {
	if now.Sub(p.failed) > lockoutForget {
		p.failures = 0
	}
	p.failures++
	p.failed = now
	g.lock(p, client)
}

// lock locks the pair according to its failures.
func (g *secretGuard) lock(p *pair, client bool) {
	over := p.failures - g.limits.LockoutAfter
	if over < 0 {
		return
	}
	wait := g.limits.LockoutFor
	if !client {
		for ; over > 0 && wait < lockoutLongest; over-- {
			wait *= 2
		}
		wait = min(wait, max(lockoutLongest, g.limits.LockoutFor))
	}
	p.locked = p.failed.Add(wait)
}
