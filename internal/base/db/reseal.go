package db

import (
	"context"
	"fmt"

	"ingot/internal/base/seal"
)

// SealedColumn is a column whose values were sealed by Tx.Seal for
// "Table.Column" and the value of column Key, which is the table's primary key.
type SealedColumn struct{ Table, Key, Column string }

const resealBatch = 100

// Reseal encrypts again every value that is not sealed with the primary key, so
// that older keys can be removed. It returns how many values it changed. It
// works in small transactions and may run concurrently with writers: a value
// that was changed in the meantime is not touched (the writer used the primary
// key). NULL and empty values are skipped. A value that cannot be opened is
// skipped and named in the error, after all others are done.
func (d *DB) Reseal(ctx context.Context, cols []SealedColumn) (n int, err error) {
	for _, c := range cols {
		for _, name := range []string{c.Table, c.Key, c.Column} {
			if !nameForm().MatchString(name) {
				return 0, fmt.Errorf("reseal: %q is not the name of a table or column", name)
			}
		}
	}
	var bad int
	var first error
	for _, c := range cols {
		changed, failures, err := d.resealColumn(ctx, c)
		n += changed
		if err != nil {
			return n, fmt.Errorf("reseal %s.%s: %w", c.Table, c.Column, err)
		}
		bad += len(failures)
		if first == nil && len(failures) > 0 {
			first = failures[0]
		}
	}
	if bad > 0 {
		return n, fmt.Errorf("reseal: %d values cannot be opened, the first: %w", bad, first)
	}
	return n, nil
}

type sealedValue struct{ key, sealed string }

func (d *DB) resealColumn(ctx context.Context, c SealedColumn) (n int, failures []error, err error) {
	stale := fmt.Sprintf(`SELECT %[2]s, %[3]s FROM %[1]s WHERE %[3]s <> '' AND %[3]s NOT LIKE ? AND %[2]s > ?
		ORDER BY %[2]s LIMIT %[4]d`, c.Table, c.Key, c.Column, resealBatch)
	swap := fmt.Sprintf(`UPDATE %[1]s SET %[3]s = ? WHERE %[2]s = ? AND %[3]s = ?`, c.Table, c.Key, c.Column)
	current := "s1." + d.keyring().Primary() + ".%"
	for last := ""; ; {
		var batch []sealedValue
		// Read outside the writing transaction: on PostgreSQL, a scan inside a
		// serializable transaction would conflict with every writer of the
		// table.
		err := d.View(ctx, func(tx *Tx) (err error) {
			batch, err = All(tx, func(s Scanner) (v sealedValue, err error) {
				err = s.Scan(&v.key, &v.sealed)
				return v, err
			}, stale, current, last)
			return err
		})
		if err != nil || len(batch) == 0 {
			return n, failures, err
		}
		last = batch[len(batch)-1].key
		var changed int
		var failed []error
		err = d.Update(ctx, func(tx *Tx) error {
			changed, failed = 0, nil
			for _, v := range batch {
				plain, err := tx.Unseal(c.Table+"."+c.Column, v.key, v.sealed)
				if err != nil {
					failed = append(failed, err)
					continue
				}
				rows, err := tx.Exec(swap, tx.Seal(c.Table+"."+c.Column, v.key, plain), v.key, v.sealed)
				if err != nil {
					return err
				}
				changed += int(rows)
			}
			return nil
		})
		if err != nil {
			return n, failures, err
		}
		n += changed
		failures = append(failures, failed...)
	}
}

func sealContext(column, rowKey string) string { return column + "\x00" + rowKey }

// keyring panics when there are no keys: this is a programming error that must
// be found before a user's request needs them.
func (d *DB) keyring() *seal.Keyring {
	keys := d.keys.Load()
	if keys == nil {
		panic("db: sealed columns need Options.Keys")
	}
	return keys
}
