package platformdb

import (
	"embed"
	"io/fs"

	"ingot/internal/db"
	"ingot/internal/fault"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations are the tables of this store.
var Migrations = db.Migrations{Name: "platform", Files: mustSub(files, "migrations")}

// SealedColumns are the secrets of this store.
var SealedColumns []db.SealedColumn

func mustSub(f fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(f, dir)
	if err != nil {
		panic(err)
	}
	return sub
}

// Store keeps users and jobs.
type Store struct{ db *db.DB }

// New returns the store in d, which Migrations must have been applied to.
func New(d *db.DB) *Store { return &Store{d} }

// errNotFound says only that a row is missing; what to tell the user about it
// is the API's business.
func errNotFound(cause error) error { return fault.Wrap(cause, fault.NotFound, "not found") }
