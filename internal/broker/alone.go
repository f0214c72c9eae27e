package broker

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
)

// querier is an administrator's access to a server: any of its connections, or
// one that holds the lock of an instance.
type querier interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// alone runs f with a connection that holds a lock, given to lock and unlock.
//
// A server continues a statement whose client was killed, or stopped waiting:
// a database could be created after the next broker found nothing to delete. The
// lock belongs to the connection, so its holder knows that statements of
// earlier connections have ended.
func alone(ctx context.Context, pool *sql.DB, lock, unlock func(context.Context, *sql.Conn) error,
	f func(*sql.Conn) error) error {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err = lock(ctx, conn); err == nil {
		err = f(conn)
	}
	if unlock(ctx, conn) != nil {
		// Closing the connection ends the lock.
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // it has no other result
	}
	return err
}

// lockNumber identifies an instance among the locks of PostgreSQL.
func lockNumber(i *instance) int64 {
	sum := sha256.Sum256([]byte("ingot service instance " + i.ID))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any bits will do
}

// alone runs f while no other connection changes the instance. One that is left
// over is closed: operations on an instance run one at a time.
func (p *postgres) alone(ctx context.Context, i *instance, f func(*postgres) error) error {
	number := lockNumber(i)
	lock := func(ctx context.Context, conn *sql.Conn) error {
		var locked bool
		if err := conn.QueryRowContext(ctx, "SELECT pg_try_advisory_lock($1)", number).Scan(&locked); err != nil || locked {
			return err
		}
		_, err := conn.ExecContext(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks
			WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND (classid::bigint << 32) | objid::bigint = $1
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, number)
		if err != nil {
			return err
		}
		_, err = conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", number)
		return err
	}
	unlock := func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, "SELECT pg_advisory_unlock_all()")
		return err
	}
	return alone(ctx, p.pool, lock, unlock, func(conn *sql.Conn) error {
		with := *p
		with.admin = conn
		return f(&with)
	})
}

// leftoverSeconds is how long a leftover statement may continue. Statements
// of MariaDB are not undone when they are interrupted.
const leftoverSeconds = 10

// alone does for MariaDB what the method of postgres does.
func (m *mariadb) alone(ctx context.Context, i *instance, f func(*mariadb) error) error {
	name := "ingot-" + i.ID[:min(len(i.ID), 50)] // up to 64 characters
	lock := func(ctx context.Context, conn *sql.Conn) error {
		for range 3 {
			var locked sql.NullInt64
			if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", name, leftoverSeconds).Scan(&locked); err != nil ||
				locked.Int64 == 1 {
				return err
			}
			var other sql.NullInt64
			if err := conn.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", name).Scan(&other); err != nil {
				return err
			}
			if other.Valid {
				_, _ = conn.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", other.Int64)) // it may have ended
			}
		}
		return fmt.Errorf("another connection is still changing the service instance %s", i.ID)
	}
	unlock := func(ctx context.Context, conn *sql.Conn) error {
		_, err := conn.ExecContext(ctx, "DO RELEASE_ALL_LOCKS()")
		return err
	}
	return alone(ctx, m.pool, lock, unlock, func(conn *sql.Conn) error {
		with := *m
		with.admin = conn
		return f(&with)
	})
}
