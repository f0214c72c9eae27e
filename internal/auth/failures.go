package auth

import (
	"context"
	"strings"
	"time"
)

// Failures are the failed logins in a row of an account from an address.
type Failures struct {
	Count int
	Last  time.Time
}

// failureRows counts failed logins for all servers that share a store: each would otherwise
// allow as many guesses as one does.
type failureRows struct{ store Store }

// row returns the account in rows, where a NUL is not possible.
func (who subject) row() string { return strings.ReplaceAll(who.key, "\x00", "\x1f") }

// load sets the failures of an account from an address to those that all servers counted.
func (g *secretGuard) load(ctx context.Context, who subject, from string) error {
	if g.rows == nil || !who.exists || who.open {
		return nil
	}
	all, err := g.rows.store.Failures(ctx, who.row(), g.now())
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.account(who).pair(from, g.now(), true)
	p.failures, p.failed, p.locked = 0, time.Time{}, time.Time{}
	if f := all[from]; f.Count > 0 {
		p.failures, p.failed = f.Count, f.Last
		g.lock(p, who.client)
	}
	return nil
}

// count adds a failure to those of all servers, or with ok forgets them.
func (g *secretGuard) count(ctx context.Context, who subject, from string, t *try, ok bool) error {
	if g.rows == nil || !who.exists || who.open {
		return nil
	}
	g.mu.Lock()
	failures := t.pair.failures
	g.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // a client that hangs up is counted too
	switch {
	case ok && failures > 0:
		return g.rows.store.ForgetFailures(ctx, who.row(), from)
	case ok || t.locked:
		return nil
	}
	now := g.now()
	f, err := g.rows.store.AddFailure(ctx, who.row(), from, now, now.Add(lockoutForget))
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t.pair.failures, t.pair.failed = f.Count-1, f.Last // end adds this one
	return nil
}

// clearEvery is how often a secret that is known to be right resets the failures that other
// servers counted: not each time, because such requests are frequent.
const clearEvery = time.Minute

// forgetNow forgets the failures of an account from an address, unless it did so just now.
func (g *secretGuard) forgetNow(ctx context.Context, who subject, from string) error {
	if g.rows == nil || who.open {
		return nil
	}
	g.mu.Lock()
	now := g.now()
	p := g.account(who).pair(from, now, true)
	due := now.Sub(p.cleared) >= clearEvery
	if due {
		p.cleared = now
	}
	g.mu.Unlock()
	if !due {
		return nil
	}
	return g.rows.store.ForgetFailures(ctx, who.row(), from)
}

// lockedAnywhere reports whether an address is locked for the account because of failures
// at any server.
func (g *secretGuard) lockedAnywhere(ctx context.Context, who subject) (bool, error) {
	if g.isLocked(who) || g.rows == nil {
		return g.isLocked(who), nil
	}
	all, err := g.rows.store.Failures(ctx, who.row(), g.now())
	for _, f := range all {
		p := &pair{failures: f.Count, failed: f.Last}
		g.lock(p, who.client)
		if g.now().Before(p.locked) {
			return true, err
		}
	}
	return false, err
}

// reset is unlock for all servers.
func (g *secretGuard) reset(ctx context.Context, who subject) error {
	g.unlock(who)
	if g.rows == nil {
		return nil
	}
	return g.rows.store.ForgetFailures(ctx, who.row())
}
