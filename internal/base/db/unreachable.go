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

// retryAfter is when a client may try again after the database was away.
const retryAfter = 5 * time.Second

// unreachable reports whether an error says that the database server is away,
// starting, stopping or full of connections, and nothing about the statement.
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
	// A connection that an earlier failure closed.
	return pgconn.SafeToRetry(err)
}

// away gives a lost connection its meaning: 503, and when to try again. Other
// errors stay what they are, among them mistakes in statements.
func (d *DB) away(err error, committing bool) error {
	if d.dialect != Postgres || !unreachable(err) {
		return err
	}
	message := "The database cannot be reached at the moment. Try again in a few seconds."
	if committing {
		message = "The database went away while the change was being stored. Look whether it was stored before you try again."
	}
	return fault.Wrap(err, fault.Unavailable, "%s", message).After(retryAfter)
}
