package catalog

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// Catalog implements the part of notify.Store that is about definitions. It is safe for concurrent use.
type Catalog struct {
	db         *db.DB
	bounds     notify.Bounds
	registered registered
}

// New returns the catalog in a database with the tables of notifydb.
func New(d *db.DB, bounds notify.Bounds) *Catalog { return &Catalog{db: d, bounds: bounds} }

// Write runs a change of definitions.
func (s *Catalog) Write(ctx context.Context, change func(*db.Tx) error) error {
	defer s.registered.forget()()
	return query.Write(ctx, s.db, change)
}
