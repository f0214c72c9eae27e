package db

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"ingot/internal/base/fault"
)

// retryAfter is when a client may try again after the database was unreachable.
const retryAfter = 5 * time.Second

// unreachable reports whether an error means that the database server is down,
// starting, stopping or out of connections, rather than a failed statement.
func unreachable(err error) bool {
	if err == nil {
		return false
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch {
		case strings.HasPrefix(pg.Code, "08"): // connection_exception
			return true
		case pg.Code == "57P01", pg.Code == "57P02", pg.Code == "57P03": // admin_shutdown, crash_shutdown, cannot_connect_now
			return true
		case pg.Code == "53300": // too_many_connections
			return true
		}
		return false
	}
	var connect *pgconn.ConnectError
	var network *net.OpError
	switch {
	case errors.As(err, &connect), errors.As(err, &network):
		return true
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return true
	}
	// A connection that was closed by an earlier failure.
	return pgconn.SafeToRetry(err)
}

// unavailable turns a lost connection into a 503 error with a time to retry.
// Other errors are returned unchanged.
func (d *DB) unavailable(err error, committing bool) error {
	if d.dialect != Postgres || !unreachable(err) {
		return err
	}
	message := "The database is unavailable. Try again in a few seconds."
	if committing {
		message = "The connection to the database was lost while the change was being saved. Check whether it was saved " +
			"before you try again."
	}
	return fault.Wrap(err, fault.Unavailable, "%s", message).After(retryAfter)
}
