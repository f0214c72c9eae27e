package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"ingot/internal/base/background"
	"ingot/internal/base/pattern"
)

// Migrations are the schema of one service: goose files NNNNN_name.sql at the
// root of Files. The applied versions are recorded in the table
// NAME_migrations, so that each service is migrated independently.
type Migrations struct {
	Name  string
	Files fs.FS
}

var nameForm = pattern.OnUse(`^[a-z][a-z0-9_]*$`)

// Migrate migrates the tables of one service to the newest version. Each file
// runs in its own transaction, so that a failing one leaves no changes. A file
// that fails because of another transaction is repeated, a limited number of times. Any
// number of processes may call it at once: one migrates, the others wait and
// find nothing to do. When the database is already at a version that Files does
// not have, it changes nothing and returns a *NewerSchemaError.
func (d *DB) Migrate(ctx context.Context, m Migrations) error {
	return d.MigrateTo(ctx, m, math.MaxInt64)
}

// MigrateTo is like Migrate, but applies no files above a version.
func (d *DB) MigrateTo(ctx context.Context, m Migrations, version int64) error {
	if d.closed.Load() {
		return ErrClosed
	}
	if err := d.migrate(ctx, m, version); err != nil {
		var newer *NewerSchemaError
		if errors.As(err, &newer) {
			return newer
		}
		return orContext(ctx, fmt.Errorf("migrate %s: %w", m.Name, err))
	}
	return nil
}

// Newest returns the newest version that this program knows.
func (m Migrations) Newest() (known int64, err error) {
	names, err := fs.Glob(m.Files, "*.sql")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, err
		}
		known = max(known, version)
	}
	return known, nil
}

// SchemaVersion returns the version of a service's tables, 0 if there are none, and
// the newest version that this program knows. It changes nothing. If the tables are
// newer, it returns a *NewerSchemaError.
func (d *DB) SchemaVersion(ctx context.Context, m Migrations) (found, known int64, err error) {
	known, err = m.Newest()
	if err != nil {
		return 0, 0, err
	}
	if !nameForm().MatchString(m.Name) {
		return 0, 0, fmt.Errorf("%q is not a valid name for migrations", m.Name)
	}
	found, err = d.schemaVersion(ctx, m.Name+"_migrations")
	if err == nil && found > known {
		err = &NewerSchemaError{Name: m.Name, Found: found, Known: known}
	}
	return found, known, orContext(ctx, err)
}

func (d *DB) migrate(ctx context.Context, m Migrations, version int64) error {
	if done, err := d.migrated(ctx, m); done || err != nil {
		return err
	}
	if err := checkFiles(m.Files); err != nil {
		return err
	}
	dialect := goose.DialectSQLite3
	if d.dialect == Postgres {
		dialect = goose.DialectPostgres
	}
	provider, err := goose.NewProvider(dialect, d.writer, m.Files,
		goose.WithTableName(m.Name+"_migrations"),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
	if err != nil {
		return err
	}

	// goose has its own locks, but reads and creates the version table before
	// it acquires them. This lock covers everything.
	unlock, err := d.lockMigrations(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	found, known, err := d.SchemaVersion(ctx, m)
	if err != nil {
		return err
	}
	if found == 0 && version >= known {
		if done, err := d.createFresh(ctx, m, known); done || err != nil {
			return err
		}
	}
	applied, err := d.apply(ctx, m.Name, func() ([]*goose.MigrationResult, error) {
		return provider.UpTo(ctx, min(version, known))
	})
	if n := len(applied); n > 0 {
		var took time.Duration
		for _, r := range applied {
			took += r.Duration
		}
		d.log.InfoContext(ctx, "migrated", "tables", m.Name, "from_file", applied[0].Source.Path, "to_version",
			applied[n-1].Source.Version, "took", took)
	}
	return err
}

const (
	// migrationAttempts bounds how often a file is tried. Servers that use the database while it is migrated make
	// a few attempts fail, not all.
	migrationAttempts  = 20
	migrationPause     = 100 * time.Millisecond
	longMigrationPause = time.Second
)

// apply calls up, which applies the files that are not applied yet, until none fails because of another transaction:
// a file may lock several tables, in an order in which the servers that run do not lock them, and PostgreSQL breaks a
// deadlock by failing either. A file that fails is rolled back as a whole, and those before it stay applied.
func (d *DB) apply(ctx context.Context, name string, up func() ([]*goose.MigrationResult, error)) (
	applied []*goose.MigrationResult, err error) {
	file, attempt := "", 0
	for {
		more, err := up()
		failed := ""
		var partial *goose.PartialError
		if errors.As(err, &partial) {
			more, failed = partial.Applied, partial.Failed.Source.Path
			err = fmt.Errorf("%s: %w", failed, partial.Err)
		}
		applied = append(applied, more...)
		if failed != file {
			file, attempt = failed, 0
		}
		attempt++
		switch {
		case err == nil || ctx.Err() != nil || !retryable(err) && !lockTimeout(err):
			return applied, err
		case attempt == migrationAttempts:
			return applied, fmt.Errorf("gave up after %d attempts: %w", attempt, err)
		}
		d.log.WarnContext(ctx, "migration is repeated: another transaction was in its way", "tables", name, "file", file,
			"attempt", attempt, "error", err)
		if !background.Sleep(ctx, migrationPause/2+rand.N(min(migrationPause<<attempt, longMigrationPause))) {
			return applied, err
		}
	}
}

// migrated reports whether all files have been applied, as at nearly every start. It needs no lock and changes
// nothing.
func (d *DB) migrated(ctx context.Context, m Migrations) (bool, error) {
	found, known, err := d.SchemaVersion(ctx, m)
	if err != nil || found == 0 || found != known {
		return false, err
	}
	names, err := fs.Glob(m.Files, "*.sql")
	if err != nil {
		return false, err
	}
	var applied int
	err = d.writer.QueryRowContext(ctx, "SELECT COUNT(DISTINCT version_id) FROM "+m.Name+
		"_migrations WHERE version_id > 0").Scan(&applied)
	return applied == len(names), err
}

// checkFiles rejects migrations that are not atomic.
func checkFiles(files fs.FS) error {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if strings.Contains(strings.ToUpper(string(text)), "+GOOSE NO TRANSACTION") {
			return fmt.Errorf("%s: a migration must run in a transaction", name)
		}
	}
	return nil
}

// postgresLock is the key of the advisory lock: "ingot" and a number, in ASCII.
const postgresLock int64 = 0x696e676f74_01

// lockMigrations waits until no other process or goroutine migrates this
// database.
func (d *DB) lockMigrations(ctx context.Context) (unlock func(), err error) {
	// Wait within this process first: waiting for the advisory lock holds a
	// connection, and enough waiting callers would leave none for the one that
	// works.
	select {
	case d.migrating <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	release, err := d.lockProcesses(ctx)
	if err != nil {
		<-d.migrating
		return nil, err
	}
	return func() { release(); <-d.migrating }, nil
}

func (d *DB) lockProcesses(ctx context.Context) (unlock func(), err error) {
	if d.dialect == SQLite {
		// goose opens its own transactions, so none of SQLite's locks can be
		// held around all of them. A lock on a file beside the database can,
		// and the system releases it when a process dies. The file is not
		// removed, because that would be a race.
		return lockFile(ctx, d.path+"-migrate", d.log)
	}
	conn, err := d.writer.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "SELECT pg_advisory_lock($1)", postgresLock); err != nil {
		conn.Close()
		return nil, err
	}
	return func() {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", postgresLock)
		if err != nil {
			// The session must not return to the pool with the lock.
			conn.Raw(func(any) error { return driver.ErrBadConn }) //nolint:errcheck // it returns the error given above
		}
		conn.Close()
	}, nil
}

// schemaVersion returns 0 when the database has no version table. It changes
// nothing.
func (d *DB) schemaVersion(ctx context.Context, table string) (int64, error) {
	exists := "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?"
	if d.dialect == Postgres {
		exists = "SELECT COUNT(*) FROM pg_catalog.pg_class WHERE oid = to_regclass($1)"
	}
	var tables int
	if err := d.writer.QueryRowContext(ctx, exists, table).Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	var version sql.NullInt64
	err := d.writer.QueryRowContext(ctx, "SELECT MAX(version_id) FROM "+table).Scan(&version)
	return version.Int64, err
}
