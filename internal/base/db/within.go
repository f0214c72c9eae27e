package db

import (
	"context"
	"embed"
	"io/fs"
	"strings"
)

// Within runs f in a transaction of run, such as DB.View or DB.Update, and returns its result; none
// after an error. X is a *Tx, or what a store makes of one.
func Within[X, T any](ctx context.Context, run func(context.Context, func(X) error) error,
	f func(X) (T, error)) (T, error) {
	var v, none T
	err := run(ctx, func(tx X) (err error) {
		v, err = f(tx)
		return err
	})
	if err != nil {
		return none, err
	}
	return v, nil
}

// EmbeddedMigrations returns the migrations in the folder "migrations" of files.
func EmbeddedMigrations(name string, files embed.FS) Migrations {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the name of the folder is valid
	}
	return Migrations{Name: name, Files: sub}
}

// Lower returns s with A to Z as a to z, the form in which names are compared.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, s)
}
