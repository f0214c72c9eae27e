package preferences

import (
	"context"
	"sync"
	"time"

	"ingot/internal/base/db"
)

// Choices implements the part of notify.Store that is about what users and addresses do not receive. It is safe for
// concurrent use.
type Choices struct {
	db     *db.DB
	now    func() time.Time
	idKey  func(context.Context) ([]byte, error)
	hashes hashes
}

// New returns the choices in a database with the tables of notifydb. idKey returns the key for hashes.
func New(d *db.DB, now func() time.Time, idKey func(context.Context) ([]byte, error)) *Choices {
	return &Choices{db: d, now: now, idKey: idKey}
}

// Count records how many rows were erased, in the transaction that erased them.
type Count func(tx *db.Tx, n int) error

// hashes makes the hashes in notify_objections. They are keyed, so that nobody who reads the table can try addresses.
type hashes struct {
	mu  sync.Mutex
	key []byte
}
