package preferences

import (
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/topics"
)

// Choices implements the part of notify.Store that is about what users and addresses do not receive. It is safe for
// concurrent use.
type Choices struct {
	db     *db.DB
	now    func() time.Time
	hasher *query.Hasher
	topics *topics.Topics
}

// New returns the choices in a database with the tables of notifydb.
func New(d *db.DB, now func() time.Time, hasher *query.Hasher, t *topics.Topics) *Choices {
	return &Choices{db: d, now: now, hasher: hasher, topics: t}
}

// Count records how many rows were erased, in the transaction that erased them.
type Count func(tx *db.Tx, n int) error
