package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
)

// Server is a server of the cluster.
type Server struct {
	ID        string // of one start
	Directory string
	Host      string
	PID       int
	Version   string
	Exclusive bool
	Works     bool
	Listens   bool
	Started   time.Time // by the clock of the database
	expires   int64
}

func (s Server) String() string {
	return fmt.Sprintf("the server on %s (pid %d, up since %s)", s.Host, s.PID, s.Started.UTC().
		Format(time.DateTime+" UTC"))
}

// RefusedError means that two servers must not use one database at the same time.
type RefusedError struct {
	Server Server // the one that is alive
	mine   bool   // whether the refused one is exclusive
}

func (e *RefusedError) Error() string {
	why := "its apps run on its own machine, so both would run every app"
	if !e.Server.Exclusive && e.mine {
		why = "this one would run every app on this machine too"
	}
	return fmt.Sprintf("%s uses this database, and %s: stop it (ingot down, on that machine), give this one "+
		"another database with --database-url, "+
		"or run all of them with --engine kubernetes. If it has just crashed, try again in 10 seconds; its own data "+
		"directory can be used at once",
		e.Server, why)
}

// Servers returns how many servers of the database are alive, with this one.
func (c *Cluster) Servers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return 1 + len(c.seen.others)
}

// List returns the servers of the database that are alive, this one first.
func (c *Cluster) List() []Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Server{c.self}, c.seen.others...)
}

// view is what a server has read about the cluster.
type view struct {
	now    int64 // by the clock of the database, in nanoseconds
	others []Server
	leases map[string]lease
}

type lease struct {
	holder string
	token  int64
}

// clock is the database's current time, not the transaction's start, because a
// statement may have waited.
const clock = `CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000000 AS BIGINT)`

// errExpired means that the row of this server is gone or expired.
var errExpired = errors.New("this server has expired")

// beat renews the row of this server and reads the state of the cluster. The
// leases are read after the row is locked: a server that takes one locks the row
// of its holder too.
func (c *Cluster) beat(ctx context.Context) error {
	began := time.Now()
	c.mu.Lock()
	me := c.self
	me.Works = c.works
	c.mu.Unlock()
	me.Listens = c.bus.listens()
	var v view
	err := c.DB.UpdateLocking(ctx, func(tx *db.Tx) error {
		v = view{}
		n, err := tx.Exec(`UPDATE cluster_servers SET works = ?, listens = ?, expires = `+clock+
			` + ? WHERE id = ? AND expires > `+clock,
			me.Works, me.Listens, int64(c.Valid), me.ID)
		if err == nil && n == 0 {
			err = errExpired
		}
		if err == nil {
			err = v.setNow(tx)
		}
		if err != nil {
			return err
		}
		return v.read(tx, me)
	})
	kept := true
	if errors.Is(err, errExpired) {
		began = time.Now()
		v, kept, err = c.admit(ctx, me)
	}
	var refused *RefusedError
	if errors.As(err, &refused) {
		c.mu.Lock()
		first := c.refused == nil
		c.refused, c.trust = refused, time.Time{}
		c.mu.Unlock()
		if first {
			c.Log.Error("another server took over while the database was out of reach; this one works on no apps until the "+
				"other is stopped", "why", refused)
		}
	}
	if err != nil {
		return err
	}
	c.learn(v, began, kept)
	return nil
}

// admit inserts or revives the row of this server, if no living server forbids it.
// kept reports whether the row was still there: then no exclusive server joined
// meanwhile.
func (c *Cluster) admit(ctx context.Context, me Server) (v view, kept bool, err error) {
	err = c.DB.UpdateLocking(ctx, func(tx *db.Tx) error {
		v = view{}
		// Beats wait for this lock, so no server comes alive beside this one.
		if _, err := tx.Exec("LOCK TABLE cluster_servers IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
		// One time for both: a row that expires in between would stay.
		if err := v.setNow(tx); err != nil {
			return err
		}
		_, err := tx.Exec("DELETE FROM cluster_servers WHERE id <> ? AND (directory = ? OR expires <= ?)", me.ID,
			me.Directory, v.now)
		if err != nil {
			return err
		}
		if err := v.read(tx, me); err != nil {
			return err
		}
		for _, other := range v.others {
			if me.Exclusive || other.Exclusive {
				return &RefusedError{Server: other, mine: me.Exclusive}
			}
		}
		n, err := tx.Exec("UPDATE cluster_servers SET works = ?, listens = ?, expires = "+clock+" + ? WHERE id = ?", me.Works,
			me.Listens, int64(c.Valid), me.ID)
		if kept = n > 0; err != nil || kept {
			return err
		}
		_, err = tx.Exec(`INSERT INTO cluster_servers (id, directory, host, pid, version, exclusive, works, listens, started, expires)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, `+clock+`, `+clock+` + ?)`,
			me.ID, me.Directory, me.Host, me.PID, me.Version, me.Exclusive, me.Works, me.Listens, int64(c.Valid))
		return err
	})
	return v, kept, err
}

// setNow reads the clock of the database.
func (v *view) setNow(tx *db.Tx) error { return tx.QueryRow("SELECT " + clock).Scan(&v.now) }

// read reads the servers that live at v.now, and the leases.
func (v *view) read(tx *db.Tx, me Server) (err error) {
	v.others, err = db.All(tx, func(s db.Scanner) (o Server, err error) {
		var started int64
		err = s.Scan(&o.ID, &o.Directory, &o.Host, &o.PID, &o.Version, &o.Exclusive, &o.Works, &o.Listens,
			&started, &o.expires)
		o.Started = db.Time(started)
		return o, err
	},
		"SELECT id, directory, host, pid, version, exclusive, works, listens, started, expires FROM cluster_servers WHERE "+
			"id <> ? AND expires > ? ORDER BY started", me.ID, v.now)
	if err != nil || me.Exclusive {
		return err
	}
	v.leases = map[string]lease{}
	rows, err := tx.Query("SELECT name, holder, token FROM cluster_leases")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var l lease
		if err := rows.Scan(&name, &l.holder, &l.token); err != nil {
			return err
		}
		v.leases[name] = l
	}
	return rows.Err()
}

// join waits until this server may use the database. A server that forbids it is
// watched for as long as it is valid: if it is alive it renews its row, and if it
// was killed it expires.
func (c *Cluster) join(ctx context.Context) error {
	var waited *RefusedError
	for {
		began := time.Now()
		me := c.self
		me.Listens = c.bus.listens()
		v, _, err := c.admit(ctx, me)
		var refused *RefusedError
		switch {
		case err == nil:
			c.learn(v, began, true)
			return nil
		case !errors.As(err, &refused):
			return err
		case waited == nil:
			waited = refused
			c.Log.Info("waiting whether another server of this database is alive", "host", refused.Server.Host, "pid",
				refused.Server.PID, "at_most", c.Valid)
		case refused.Server.ID != waited.Server.ID || refused.Server.expires != waited.Server.expires:
			return refused
		}
		if !background.Sleep(ctx, c.Beat/10) {
			return context.Cause(ctx)
		}
	}
}

// leave removes the row of this server and releases its leases.
func (c *Cluster) leave(ctx context.Context) error {
	err := c.DB.UpdateLocking(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE cluster_leases SET holder = '' WHERE holder = ?", c.self.ID)
		if err == nil {
			_, err = tx.Exec("DELETE FROM cluster_servers WHERE id = ?", c.self.ID)
		}
		return err
	})
	if err != nil || c.Exclusive {
		return err
	}
	return c.bus.now(ctx, itemLook)
}

// heartbeats renews the row until ctx is done.
func (c *Cluster) heartbeats(ctx context.Context) {
	failing := false
	for {
		wait := c.untilNextBeat()
		if failing {
			wait = c.Beat / 3
		}
		if !background.Wait(ctx, wait, c.beats) {
			return
		}
		limited, cancel := context.WithTimeout(ctx, c.Valid)
		err := c.beat(limited)
		cancel()
		if err != nil && ctx.Err() == nil && !failing {
			c.Log.Warn("renewing the row of this server failed and will be retried", "error", err)
		}
		failing = err != nil
	}
}

// untilNextBeat is shorter than Beat if another server would expire before: its
// leases are then taken at once.
func (c *Cluster) untilNextBeat() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := c.Beat
	for _, other := range c.seen.others {
		if left := time.Duration(other.expires-c.seen.now) + c.Valid/100; left < wait {
			wait = max(left, c.Valid/100)
		}
	}
	return wait
}

// learn takes over what a beat has read. Leases that others hold now are lost.
func (c *Cluster) learn(v view, began time.Time, kept bool) {
	took := time.Since(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !began.Before(c.trust) && !c.trust.IsZero() {
		// The database was out of reach, perhaps for all servers: the others get the
		// time to renew their rows before their leases are taken.
		c.patient = time.Now().Add(c.Valid / 2)
		c.next.resync = true
	}
	c.trust = began.Add(c.Valid - c.Valid/10)
	if took < time.Second { // otherwise it is not known when the database looked at its clock
		c.skew = time.Duration(v.now - began.Add(took/2).UnixNano())
	}
	c.refused, c.seen = nil, v
	for name, token := range c.held {
		// What was read before the lease was taken has a lower token.
		if l := v.leases[name]; l.token > token || l.token == token && l.holder != c.self.ID {
			delete(c.held, name)
			c.next.lost |= shardNamed(name)
		}
	}
	if c.Exclusive && !kept { // another server took over meanwhile
		c.next.lost, c.next.gained = allShards, allShards
	}
	background.Kick(c.renewed)
	background.Kick(c.wakes)
}
