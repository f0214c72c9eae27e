package db

import (
	"context"
	"database/sql"
	"os"
)

// LogFile returns the path of the write-ahead log of an SQLite database; empty for PostgreSQL.
func (d *DB) LogFile() string {
	if d.dialect != SQLite {
		return ""
	}
	return d.path + "-wal"
}

// Stats returns the state of the connection pools, the one that writes and the one that only
// reads. PostgreSQL has one for both, which is returned as writing.
func (d *DB) Stats() (writing, reading sql.DBStats) {
	writing = d.writer.Stats()
	if d.reader != d.writer {
		reading = d.reader.Stats()
	}
	return writing, reading
}

// Size returns the size of the database in bytes.
func (d *DB) Size(ctx context.Context) (n int64, err error) {
	if d.dialect == Postgres {
		err = d.View(ctx, func(tx *Tx) error { return tx.QueryRow("SELECT pg_database_size(current_database())").Scan(&n) })
		return n, err
	}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(d.path + suffix); err == nil {
			n += info.Size()
		}
	}
	return n, nil
}
