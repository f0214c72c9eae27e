package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Listener receives the notifications of some channels of PostgreSQL, on a
// separate connection.
type Listener struct{ conn *pgx.Conn }

// Listen connects and listens to channels. rawURL is for databases behind a
// pooler that cannot LISTEN; empty means the URL of the database. Notifications
// that are sent before it returns, or while there is no Listener, are not received.
func (d *DB) Listen(ctx context.Context, rawURL string, channels ...string) (*Listener, error) {
	if d.dialect != Postgres {
		return nil, errors.New("only PostgreSQL has notifications")
	}
	config, secrets, err := postgresConfig(cmp.Or(rawURL, d.url))
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to listen: %w", hide(orContext(ctx, err), secrets))
	}
	for _, channel := range channels {
		if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{channel}.Sanitize()); err != nil {
			conn.Close(ctx) //nolint:errcheck // it failed already
			return nil, fmt.Errorf("listen: %w", orContext(ctx, err))
		}
	}
	return &Listener{conn}, nil
}

// Next waits for the next notification and returns its channel and payload. After an error of
// ctx it can be called again, after any other not.
func (l *Listener) Next(ctx context.Context) (channel, payload string, err error) {
	n, err := l.conn.WaitForNotification(ctx)
	if err != nil {
		return "", "", orContext(ctx, err)
	}
	return n.Channel, n.Payload, nil
}

// Close ends the connection.
func (l *Listener) Close(ctx context.Context) {
	l.conn.Close( //nolint:errcheck // the connection is gone in any case
		ctx)
}

// Notify sends a payload of at most 8,000 bytes to the listeners of a channel. It
// is a separate transaction: PostgreSQL serializes the commits of transactions
// that notify.
func (d *DB) Notify(ctx context.Context, channel, payload string) error {
	return d.UpdateLocking(ctx, func(tx *Tx) error {
		_, err := tx.Exec("SELECT pg_notify(?, ?)", channel, payload)
		return err
	})
}
