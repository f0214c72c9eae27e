package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// FreshFile is the name of an optional file beside the migrations: statements that make the tables of the newest
// version at once in an empty SQLite database. SQLite reads its whole schema again for each table that a
// migration alters, so that all migrations one after another take most of the time of a first start.
// dbtest.Fresh writes the file, and checks that it makes the same as the migrations.
const FreshFile = "fresh.sqlite"

// createFresh makes the tables of m with its FreshFile, if there is one and m has no table yet. It reports
// whether it did; otherwise the migrations have to.
func (d *DB) createFresh(ctx context.Context, m Migrations, known int64) (bool, error) {
	if d.dialect != SQLite {
		return false, nil
	}
	statements, err := fs.ReadFile(m.Files, FreshFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	began := time.Now()
	tx, err := d.writer.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	var tables int
	// An earlier version may have been killed between its first table and the number of its version.
	err = tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE name LIKE ? || '\\_%' ESCAPE '\\'", m.Name).
		Scan(&tables)
	if err != nil || tables > 0 {
		return false, err
	}
	if _, err := tx.ExecContext(ctx, string(statements)); err != nil {
		return false, fmt.Errorf("%s: %w", FreshFile, err)
	}
	var version int64
	if err := tx.QueryRowContext(ctx, "SELECT MAX(version_id) FROM "+m.Name+"_migrations").Scan(&version); err != nil {
		return false, err
	}
	if version != known {
		return false, nil // it was not written again after a migration was added, for which a test fails
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	d.log.InfoContext(ctx, "created", "tables", m.Name, "version", known, "took", time.Since(began))
	return true, nil
}
