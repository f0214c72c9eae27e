package dbcopy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ingot/internal/base/db"
)

// Tables are the tables of a server's services.
type Tables struct {
	// Schemas returns the migrations of all services for a kind of database.
	Schemas func(db.Dialect) []db.Migrations
	Sealed  []db.SealedColumn
	// Seeded are tables into which migrations insert rows.
	Seeded []string
	// Prepare is called in the transaction of the target before a database is copied,
	// for tables that the migrations do not create; it may be nil.
	Prepare func(from, to *db.Tx) error
}

// Options configure Copy.
type Options struct {
	Tables
	// From are the databases of the source, which share no tables; To is the target.
	// If To has keys, it is checked that they open the values of Sealed.
	From []*db.DB
	To   *db.DB
	Keys bool
	// Transient reports whether the rows of a table describe running servers: they are
	// not copied, and the target may have some.
	Transient func(table string) bool
	// Report is called after every table, and from time to time during a large one.
	Report func(Progress)
}

// Progress is how far a table was copied.
type Progress struct {
	Table string
	Rows  int64
	// Done means that the table was compared with the source; Sum is its checksum then.
	Done bool
	Sum  string
	// Unreadable are sealed values that the keys do not open, on the source neither.
	Unreadable int
}

// NotEmptyError means that the target has rows.
type NotEmptyError struct{ Table string }

func (e *NotEmptyError) Error() string {
	return "the table " + e.Table + " already has rows: name an empty database. Nothing was changed"
}

// Copy copies all tables. If it fails, the target has no rows.
func Copy(ctx context.Context, o Options) error {
	versions, err := o.versions(ctx)
	if err != nil {
		return err
	}
	if err := o.prepare(ctx, versions); err != nil {
		return err
	}
	if err := o.rows(ctx); err != nil {
		return fmt.Errorf("nothing was copied: %w", err)
	}
	for _, m := range o.Schemas(o.To.Dialect()) {
		if err := o.To.Migrate(ctx, m); err != nil {
			return fmt.Errorf("everything was copied, but the copy could not be migrated: %w", err)
		}
	}
	return nil
}

// prepare creates the tables in the target, which has no rows, with the source's versions.
func (o Options) prepare(ctx context.Context, versions map[string]int64) error {
	if err := o.To.View(ctx, o.empty); err != nil {
		return err
	}
	for _, m := range o.Schemas(o.To.Dialect()) {
		if versions[m.Name] == 0 {
			continue
		}
		if err := o.prepareSchema(ctx, m, versions[m.Name]); err != nil {
			return err
		}
	}
	return nil
}

// versions returns the versions of the source's tables by the names of migrations.
func (o Options) versions(ctx context.Context) (map[string]int64, error) {
	all := map[string]int64{}
	for _, d := range o.From {
		for _, m := range o.Schemas(d.Dialect()) {
			found, _, err := d.SchemaVersion(ctx, m)
			if err != nil {
				return nil, err
			}
			if all[m.Name] > 0 && found > 0 {
				return nil, fmt.Errorf("the %q tables are in two databases", m.Name)
			}
			all[m.Name] = max(all[m.Name], found)
		}
	}
	if len(o.From) > 0 && slices.Max(slices.Collect(maps.Values(all))) == 0 {
		return nil, errors.New("it has no tables of Ingot")
	}
	return all, nil
}

// prepareSchema creates the tables of a service in the source's version.
func (o Options) prepareSchema(ctx context.Context, m db.Migrations, version int64) error {
	found, _, err := o.To.SchemaVersion(ctx, m)
	if err != nil {
		return err
	}
	if found > version {
		return fmt.Errorf("the %q tables have version %d in the target and %d in the source: "+
			"migrate the source with 'ingot db migrate' first, or name a database without tables", m.Name, found, version)
	}
	return o.To.MigrateTo(ctx, m, version)
}

// empty returns an error if the target has rows.
func (o Options) empty(tx *db.Tx) error {
	names, err := tables(tx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if o.skipped(name) || slices.Contains(o.Seeded, name) {
			continue
		}
		var any bool
		if err := tx.QueryRow("SELECT EXISTS (SELECT 1 FROM " + quote(name) + ")").Scan(&any); err != nil {
			return err
		}
		if any {
			return &NotEmptyError{name}
		}
	}
	return nil
}

// skipped reports whether a table is not copied. goose has one for each service.
func (o Options) skipped(table string) bool {
	return strings.HasSuffix(table, "_migrations") || o.Transient(table)
}

// rows copies the rows of all databases in one transaction.
func (o Options) rows(ctx context.Context) error {
	// Without the guarantees of Update: all tables are locked.
	return o.To.UpdateLocking(ctx, func(to *db.Tx) error {
		left, err := o.lockEmpty(to)
		if err != nil {
			return err
		}
		for _, from := range o.From {
			if err := from.View(ctx, func(tx *db.Tx) error { return o.database(tx, to, left) }); err != nil {
				return err
			}
		}
		return complete(left)
	})
}

// complete returns an error if tables are left.
func complete(left map[string]bool) error {
	if len(left) > 0 {
		return fmt.Errorf("the source has no table %s: it is not complete", slices.Min(slices.Collect(maps.Keys(left))))
	}
	return nil
}

// lockEmpty locks the tables of the target that are to be filled, which have to be empty,
// and returns them.
func (o Options) lockEmpty(to *db.Tx) (map[string]bool, error) {
	targets, err := tables(to)
	if err != nil {
		return nil, err
	}
	left := map[string]bool{}
	for _, name := range slices.DeleteFunc(targets, o.skipped) {
		if _, err := to.Exec("LOCK TABLE " + quote(name) + " IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return nil, err
		}
		left[name] = true
	}
	return left, o.empty(to)
}

// database copies one database of the source and removes its tables from left.
func (o Options) database(from, to *db.Tx, left map[string]bool) error {
	if o.Prepare != nil {
		if err := o.Prepare(from, to); err != nil {
			return err
		}
	}
	names, err := tables(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if o.skipped(name) || !left[name] {
			continue // not a table of Ingot
		}
		delete(left, name)
		if err := o.table(from, to, name); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	return nil
}

// table copies one table, reads it back and compares it.
func (o Options) table(from, to *db.Tx, name string) error {
	theirs, err := columns(from, name)
	if err != nil {
		return err
	}
	cols, err := columns(to, name)
	if err != nil {
		return err
	}
	if err := sameColumns(theirs, cols); err != nil {
		return err
	}
	if err := o.clear(to, name); err != nil {
		return err
	}
	read := o.insert(from, to, name, cols)
	if read.err != nil {
		return read.err
	}
	return o.compare(to, name, cols, read.sum)
}

func sameColumns(theirs, ours []column) error {
	if got, want := namesOf(theirs), namesOf(ours); !slices.Equal(got, want) {
		return fmt.Errorf("it has the columns %s in the source and %s in the target", strings.Join(got, ", "),
			strings.Join(want, ", "))
	}
	return nil
}

// clear removes the rows that migrations insert into a table.
func (o Options) clear(to *db.Tx, name string) error {
	if !slices.Contains(o.Seeded, name) {
		return nil
	}
	_, err := to.Exec("DELETE FROM " + quote(name))
	return err
}

// compare reads a table back, and reports it if it has the rows of a checksum.
func (o Options) compare(to *db.Tx, name string, cols []column, want sum) error {
	var written sum
	if err := scan(to, name, cols, func(row []any) error { written.add(row); return nil }); err != nil {
		return err
	}
	if written != want {
		return fmt.Errorf("the copy is not what was read: %s, want %s", written, want)
	}
	p := Progress{Table: name, Rows: written.rows, Done: true, Sum: written.text()}
	var err error
	if p.Unreadable, err = o.unreadable(to, name); err != nil {
		return err
	}
	o.Report(p)
	return nil
}

// unreadable returns how many sealed values of a table the keys do not open. It is an
// error if they open none.
func (o Options) unreadable(tx *db.Tx, table string) (bad int, err error) {
	for _, c := range o.Sealed {
		if c.Table != table || !o.Keys {
			continue
		}
		type value struct{ key, sealed string }
		// Values are small, and few: no list of secrets is larger than the server's memory.
		all, err := db.All(tx, func(s db.Scanner) (v value, err error) {
			err = s.Scan(&v.key, &v.sealed)
			return v, err
		}, fmt.Sprintf("SELECT %s, %s FROM %s WHERE %s <> ''", quote(c.Key), quote(c.Column), quote(table), quote(c.Column)))
		if err != nil {
			return 0, err
		}
		failed, last := 0, error(nil)
		for _, v := range all {
			if _, err := tx.Unseal(c.Table+"."+c.Column, v.key, v.sealed); err != nil {
				failed, last = failed+1, err
			}
		}
		if failed > 0 && failed == len(all) {
			return 0, fmt.Errorf("the encryption keys do not belong to this database: %w", last)
		}
		bad += failed
	}
	return bad, nil
}
