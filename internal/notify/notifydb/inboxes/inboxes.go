package inboxes

import (
	"log/slog"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify/notifydb/usage"
)

// Inboxes implements the part of notify.Store that is about inboxes. It is safe for concurrent use.
type Inboxes struct {
	db    *db.DB
	usage *usage.Usage
	now   func() time.Time
	log   *slog.Logger
}

// New returns the inboxes in a database with the tables of notifydb.
func New(d *db.DB, u *usage.Usage, now func() time.Time, log *slog.Logger) *Inboxes {
	return &Inboxes{db: d, usage: u, now: now, log: log}
}
