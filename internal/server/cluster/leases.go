package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/db"
)

// Lease is a lease that this server holds. The zero Lease needs no check.
type Lease struct {
	Name   string
	holder string
	token  int64
}

// LostError means that leases are no longer held.
type LostError struct{ Names []string }

func (e *LostError) Error() string {
	return fmt.Sprintf("%v: %s", ErrNotHeld, strings.Join(e.Names, ", "))
}

// Unwrap returns ErrNotHeld.
func (e *LostError) Unwrap() error { return ErrNotHeld }

// idleFor is how long a transaction with a check may be idle before the database
// ends it: the machine of its server may be gone, and a takeover waits for it.
const idleFor = 10 * time.Second

// Check returns a *LostError unless all leases are held. No other server can take
// one of them until the transaction has ended: the rows are locked FOR SHARE, which
// FOR KEY SHARE would not achieve. Any number of transactions can hold such locks.
func Check(tx *db.Tx, leases ...Lease) error {
	tokens := map[string]int64{}
	var names []any
	holder := ""
	for _, l := range leases {
		if _, twice := tokens[l.Name]; l.Name != "" && !twice {
			tokens[l.Name], holder = l.token, l.holder
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	// In the order of their names, so that no two transactions wait for each other.
	rows, err := tx.Query(`SELECT name, token, set_config('idle_in_transaction_session_timeout', ?, TRUE) FROM cluster_leases
		WHERE holder = ? AND name IN (?`+strings.Repeat(", ?", len(names)-1)+`) ORDER BY name FOR SHARE`,
		append([]any{fmt.Sprint(idleFor.Milliseconds()), holder}, names...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, ignored string
		var token int64
		if err := rows.Scan(&name, &token, &ignored); err != nil {
			return err
		}
		if tokens[name] == token {
			delete(tokens, name)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if len(tokens) > 0 {
		lost := &LostError{}
		for name := range tokens {
			lost.Names = append(lost.Names, name)
		}
		slices.Sort(lost.Names)
		return lost
	}
	return nil
}

// trusted reports whether the leases are certainly held. The lock must be held.
func (c *Cluster) trusted() bool { return c.single || time.Now().Before(c.trust) }

// holds returns a lease that is certainly held.
func (c *Cluster) holds(name string) (Lease, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.single || c.Exclusive {
		return Lease{}, c.trusted()
	}
	token, ok := c.held[name]
	return Lease{name, c.self.ID, token}, ok && c.trusted()
}

// Lease returns the lease of the shard of an app; false if this server does not
// hold it for certain.
func (c *Cluster) Lease(appGUID string) (Lease, bool) { return c.holds(shardName(ShardOf(appGUID))) }

// Owns reports whether this server works on an app.
func (c *Cluster) Owns(appGUID string) bool {
	_, ok := c.Lease(appGUID)
	return ok
}

// Fence returns a context whose transactions fail with ErrNotHeld when another
// server works on the app. A takeover waits until such a transaction has ended.
func (c *Cluster) Fence(ctx context.Context, appGUID string) context.Context {
	if c.single {
		return ctx
	}
	return c.DB.WithCheck(ctx, func(tx *db.Tx) error {
		l, ok := c.Lease(appGUID)
		if !ok {
			return ErrNotHeld
		}
		return Check(tx, l)
	})
}

// Lead reports whether this server does the work of this name, which only
// one server may do at a time, and takes its lease if no living server holds it.
// The lease is held until Stop, or until the server has expired.
func (c *Cluster) Lead(ctx context.Context, name string) bool {
	if _, ok := c.holds(name); ok || c.single || c.Exclusive {
		return ok
	}
	if c.taken(name) {
		return false
	}
	ok, err := c.take(ctx, name)
	if err != nil && ctx.Err() == nil {
		c.Log.Warn("taking a lease failed", "lease", name, "error", err)
	}
	return ok
}

// Claim takes the lease of a name for work that ends, unless another living server holds it. It does
// not exclude a second claim on this server, which the caller does. release removes the lease.
func (c *Cluster) Claim(ctx context.Context, name string) (release func(), ok bool, err error) {
	if c.single || c.Exclusive {
		return func() {}, true, nil
	}
	// Another server may remove its claim's row while this one looks at it.
	for range 3 {
		if ok, err = c.take(ctx, name); !errors.Is(err, db.ErrNotFound) {
			break
		}
	}
	if err != nil || !ok {
		return nil, false, err
	}
	return func() { c.release(context.WithoutCancel(ctx), name) }, true, nil
}

// release removes a lease that was claimed. It tries for as long as this server stays alive without a
// beat: when the database is away for longer, the lease is free with everything else that it held.
func (c *Cluster) release(ctx context.Context, name string) {
	c.mu.Lock()
	delete(c.held, name)
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.Valid)
	defer cancel()
	err := c.DB.UpdateLocking(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM cluster_leases WHERE name = ? AND holder = ?", name, c.self.ID)
		return err
	})
	if err != nil {
		c.Log.WarnContext(ctx, "releasing a lease failed", "lease", name, "error", err)
	}
}

// taken reports whether another server held a lease when this one looked last.
func (c *Cluster) taken(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	holder := c.seen.leases[name].holder
	return slices.ContainsFunc(c.seen.others, func(o Server) bool { return o.ID == holder })
}

// take takes a lease that no living server holds.
func (c *Cluster) take(ctx context.Context, name string) (bool, error) {
	var token int64
	taken := false
	err := c.DB.UpdateLocking(ctx, func(tx *db.Tx) error {
		taken = false
		if _, err := tx.Exec("INSERT INTO cluster_leases (name, holder, token) VALUES (?, '', 0) ON CONFLICT (name) DO "+
			"NOTHING", name); err != nil {
			return err
		}
		var holder string
		// It waits for transactions that checked the lease.
		if err := tx.QueryRow("SELECT holder FROM cluster_leases WHERE name = ? FOR UPDATE", name).Scan(&holder); err != nil {
			return err
		}
		if holder != "" && holder != c.self.ID {
			// Locked against a beat of the holder, which reads its leases afterwards.
			alive, err := db.All(tx, func(s db.Scanner) (alive bool, err error) {
				err = s.Scan(&alive)
				return alive, err
			}, "SELECT expires > "+clock+" FROM cluster_servers WHERE id = ? FOR SHARE", holder)
			if err != nil || slices.Contains(alive, true) {
				return err
			}
		}
		taken = true
		return tx.QueryRow(`UPDATE cluster_leases SET holder = ?, token = GREATEST(token + 1, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT))
			WHERE name = ? RETURNING token`, c.self.ID, name).Scan(&token)
	})
	if err != nil || !taken {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[name] = max(c.held[name], token) // two callers may have taken it
	return c.trusted(), nil
}

// give releases a lease, which is no longer in held.
func (c *Cluster) give(ctx context.Context, name string) error {
	return c.DB.UpdateLocking(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE cluster_leases SET holder = '' WHERE name = ? AND holder = ?", name, c.self.ID)
		return err
	})
}
