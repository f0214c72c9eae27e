package query

import (
	"context"
	"errors"
	"fmt"

	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// View runs read in a read-only transaction.
func View[T any](ctx context.Context, d *db.DB, read func(*db.Tx) (T, error)) (T, error) {
	v, err := db.Within(ctx, d.View, read)
	return v, Meaning(err)
}

// Read is like View for a single query.
func Read[T any](ctx context.Context, d *db.DB, query func(*db.Tx) (T, error)) (T, error) {
	v, err := db.Within(ctx, d.Read, query)
	return v, Meaning(err)
}

// Update runs change in a transaction and returns its result.
func Update[T any](ctx context.Context, d *db.DB, change func(*db.Tx) (T, error)) (T, error) {
	v, err := db.Within(ctx, d.Update, change)
	return v, Meaning(err)
}

// Write is like Update for a change without a result.
func Write(ctx context.Context, d *db.DB, change func(*db.Tx) error) error {
	return Meaning(d.Update(ctx, change))
}

// Lock is like Write with db.UpdateLocking.
func Lock(ctx context.Context, d *db.DB, change func(*db.Tx) error) error {
	return Meaning(d.UpdateLocking(ctx, change))
}

// Meaning converts errors of package db to those of notify.
func Meaning(err error) error {
	switch {
	case err == nil:
		return nil
	case db.IsConflict(err):
		return fmt.Errorf("%w (%w)", notify.ErrConflict, err)
	case errors.Is(err, db.ErrText):
		return Unstorable(err)
	}
	return err
}

// Unstorable is the error for text that no database can store.
func Unstorable(err error) error {
	var f *fault.Error
	if errors.As(err, &f) {
		return err
	}
	return fault.Wrap(err, fault.Unprocessable,
		"The request contains a NUL character or invalid UTF-8, which cannot be stored. Send it without such characters.")
}

// One reads a row. Text that cannot be stored matches no row.
func One[T any](tx *db.Tx, scan func(db.Scanner) (T, error), query string, args ...any) (T, error) {
	v, err := db.One(tx, scan, query, args...)
	if errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrText) {
		return v, notify.ErrNotFound
	}
	return v, err
}

// Changed returns ErrNotFound when a statement changed no row.
func Changed(n int64, err error) error {
	if err == nil && n == 0 {
		return notify.ErrNotFound
	}
	return err
}

// Found is like Changed for statements whose keys may be text that cannot be
// stored.
func Found(n int64, err error) error {
	if errors.Is(err, db.ErrText) {
		return notify.ErrNotFound
	}
	return Changed(n, err)
}

// Matching returns the matching rows. Text that cannot be stored matches none.
func Matching[T any](tx *db.Tx, scan func(db.Scanner) (T, error), query string, args ...any) ([]T, error) {
	list, err := db.All(tx, scan, query, args...)
	if errors.Is(err, db.ErrText) {
		return []T{}, nil
	}
	return list, err
}

// IsNotFound reports whether an error is notify.ErrNotFound.
func IsNotFound(err error) bool { return errors.Is(err, notify.ErrNotFound) }

// Listed runs a query whose arguments are lists of texts.
func Listed[T any](tx *db.Tx, scan func(db.Scanner) (T, error), query string, lists ...[]string) ([]T, error) {
	args := make([]any, 0, len(lists))
	for _, texts := range lists {
		list, err := TextList(texts)
		if err != nil {
			return nil, err
		}
		args = append(args, list)
	}
	return db.All(tx, scan, query, args...)
}

// SkipLocked skips rows that another transaction is changing. SQLite has one
// writer.
func SkipLocked(d db.Dialect) string {
	if d == db.Postgres {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// ForUpdate waits for rows that another transaction is changing.
func ForUpdate(d db.Dialect) string {
	if d == db.Postgres {
		return " FOR UPDATE"
	}
	return ""
}
