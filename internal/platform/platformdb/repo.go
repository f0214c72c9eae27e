package platformdb

import (
	"errors"

	"github.com/google/uuid"

	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// repo implements platform.Repo in one transaction.
type repo[T any] struct {
	tx    *db.Tx
	clock *clock
	t     *table[T]
}

func repoOf[T any](x *transaction, t *table[T]) repo[T] { return repo[T]{x.Tx, x.clock, t} }

func (r repo[T]) Get(guid string) (*T, error) {
	row, err := db.One(r.tx, scanner(r.tx, r.t.read), "SELECT "+r.t.list+" FROM "+r.t.name+" AS t WHERE t.guid = ?", guid)
	return one(row, err)
}

func (r repo[T]) First(q platform.Query) (*T, error) {
	q.Page, q.PerPage = 1, 1
	columns, names := r.t.columnsFor(q)
	in, err := r.t.scope(r.tx, q)
	if err != nil {
		return nil, err
	}
	s, err := r.t.selection(r.tx.Dialect(), names, q, in)
	if err != nil {
		return nil, err
	}
	return one(db.One(r.tx, scanner(r.tx, columns), s.sql, s.args...))
}

func (r repo[T]) List(q platform.Query) (page []*T, total int, err error) {
	columns, names := r.t.columnsFor(q)
	in, err := r.t.scope(r.tx, q)
	if err != nil {
		return nil, 0, err
	}
	s, err := r.t.selection(r.tx.Dialect(), names, q, in)
	if err != nil {
		return nil, 0, err
	}
	page, err = db.All(r.tx, scanner(r.tx, columns), s.sql, s.args...)
	if err != nil {
		return nil, 0, err
	}
	// When the end of the list is in sight there is no need to count.
	before := skipped(q)
	if n := len(page); q.PerPage <= 0 || n < q.PerPage && (n > 0 || before == 0) {
		return page, before + n, nil
	}
	total, err = r.count(q, in)
	return page, total, err
}

func (r repo[T]) Count(q platform.Query) (n int, err error) {
	in, err := r.t.scope(r.tx, q)
	if err != nil {
		return 0, err
	}
	return r.count(q, in)
}

func (r repo[T]) count(q platform.Query, in scope) (n int, err error) {
	s, err := r.t.matches(r.tx.Dialect(), q, in)
	if err != nil {
		return 0, err
	}
	err = r.tx.QueryRow("SELECT COUNT(*) FROM "+r.t.name+" AS t"+s.sql, s.args...).Scan(&n)
	return n, err
}

func (r repo[T]) Insert(row *T) error {
	base := r.t.base(row)
	if base.GUID == "" {
		base.GUID = uuid.NewString()
	}
	if base.Created.IsZero() || base.Updated.IsZero() {
		now := r.clock.now()
		if base.Created.IsZero() {
			base.Created = now
		}
		if base.Updated.IsZero() {
			base.Updated = now
		}
	}
	values, err := r.t.values(r.tx, row)
	if err != nil {
		return err
	}
	if r.t.ofApp != nil {
		values = append(values, r.t.ofApp(row))
	}
	if _, err := r.tx.Exec(r.t.insert, values...); err != nil {
		return written(err)
	}
	for i := range r.t.derived {
		if err := r.t.derived[i].add(r.tx, row); err != nil {
			return written(err)
		}
	}
	return nil
}

func (r repo[T]) Update(row *T) error {
	base := r.t.base(row)
	if !storable(base.GUID) {
		return notFound(db.ErrText)
	}
	base.Updated = r.clock.now()
	values, err := r.t.values(r.tx, row)
	if err != nil {
		return err
	}
	stale, err := r.stale(row)
	if err != nil {
		return err
	}
	n, err := r.tx.Exec(r.t.update, append(values[1:], base.GUID)...)
	if err != nil {
		return written(err)
	}
	if n == 0 {
		return notFound(nil)
	}
	for _, d := range stale {
		if err := d.change(r.tx, row, base.GUID); err != nil {
			return err
		}
	}
	return nil
}

// stale returns the derived tables that must follow a change of the row. Labels
// seldom change, and most updates are spared their rewriting.
func (r repo[T]) stale(row *T) (stale []*derived[T], err error) {
	if len(r.t.derived) == 0 {
		return nil, nil
	}
	now, dest := make([]string, len(r.t.derived)), make([]any, len(r.t.derived))
	columns := ""
	for i, d := range r.t.derived {
		columns += ", " + d.column
		dest[i] = &now[i]
	}
	err = r.tx.QueryRow("SELECT "+columns[len(", "):]+" FROM "+r.t.name+" WHERE guid = ?", r.t.base(row).GUID).
		Scan(dest...)
	if missing(err) {
		return nil, notFound(err)
	}
	if err != nil {
		return nil, err
	}
	for i := range r.t.derived {
		d := &r.t.derived[i]
		text, err := d.text(r.tx, row)
		if err != nil {
			return nil, err
		}
		if text != now[i] {
			stale = append(stale, d)
		}
	}
	return stale, nil
}

func (r repo[T]) Delete(guid string) error {
	n, err := r.tx.Exec("DELETE FROM "+r.t.name+" WHERE guid = ?", guid)
	if missing(err) || err == nil && n == 0 {
		return notFound(err)
	}
	if err != nil {
		return err
	}
	return r.drop(guid)
}

// DeleteAll takes no notice of order and page.
func (r repo[T]) DeleteAll(q platform.Query) (int, error) {
	in, err := r.t.scope(r.tx, q)
	if err != nil {
		return 0, err
	}
	s, err := r.t.matches(r.tx.Dialect(), q, in)
	if err != nil {
		return 0, err
	}
	statement := "DELETE FROM " + r.t.name + " AS t" + s.sql
	if len(r.t.derived)+len(r.t.with) == 0 {
		n, err := r.tx.Exec(statement, s.args...)
		return int(n), err
	}
	// Not the derived tables first: q may ask for labels.
	guids, err := db.All(r.tx, func(row db.Scanner) (guid string, err error) {
		err = row.Scan(&guid)
		return guid, err
	}, statement+" RETURNING guid", s.args...)
	if err != nil {
		return 0, err
	}
	return len(guids), r.drop(guids...)
}

// drop removes what is derived from rows that are gone, or goes with them.
func (r repo[T]) drop(guids ...string) error {
	for table, column := range r.t.with {
		for _, guid := range guids {
			if _, err := r.tx.Exec("DELETE FROM "+table+" WHERE "+column+" = ?", guid); err != nil {
				return err
			}
		}
	}
	for i := range r.t.derived {
		if err := r.t.derived[i].drop(r.tx, guids...); err != nil {
			return err
		}
	}
	return nil
}

// missing reports that there is no such row: none was found, or none can be
// because the key cannot be stored.
func missing(err error) bool { return errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrText) }

// notFound says only that a row is missing; what to tell the user about it is
// the caller's business.
func notFound(cause error) error { return fault.Wrap(cause, fault.NotFound, "not found") }

func one[T any](row *T, err error) (*T, error) {
	if missing(err) {
		return nil, notFound(err)
	}
	if err != nil {
		return nil, err
	}
	return row, nil
}

// written gives the failure of a write its meaning.
func written(err error) error {
	switch {
	case db.IsConflict(err):
		return fault.Wrap(err, fault.Conflict, "already exists")
	case errors.Is(err, db.ErrText):
		return fault.Wrap(err, fault.Unprocessable, "text must be valid UTF-8 without NUL characters")
	}
	return err
}
