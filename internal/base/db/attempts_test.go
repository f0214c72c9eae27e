package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// TestMigrationAttempts: files are repeated if another transaction made them fail, and each a limited number of times.
func TestMigrationAttempts(t *testing.T) {
	t.Parallel()
	deadlock, mistake := &pgconn.PgError{Code: "40P01"}, &pgconn.PgError{Code: "42601"}
	file := func(n int) *goose.MigrationResult {
		return &goose.MigrationResult{Source: &goose.Source{Path: fmt.Sprintf("%05d.sql", n), Version: int64(n)}}
	}
	failing := func(n int, err error, applied ...*goose.MigrationResult) error {
		return &goose.PartialError{Applied: applied, Failed: file(n), Err: fmt.Errorf("run: %w", err)}
	}
	for name, test := range map[string]struct {
		results func(call int) error // of up
		want    error
		calls   int
		applied int
	}{
		"success": {results: func(int) error { return nil }, calls: 1, applied: 1},
		"twice": {results: func(call int) error {
			return map[int]error{1: failing(1, deadlock), 2: failing(1, &pgconn.PgError{Code: "55P03"})}[call]
		}, calls: 3, applied: 1},
		"mistake": {results: func(int) error { return failing(1, mistake) }, want: mistake, calls: 1},
		"always":  {results: func(int) error { return failing(1, deadlock) }, want: deadlock, calls: migrationAttempts},
		"one file after the other": {results: func(call int) error {
			if call < migrationAttempts {
				return failing(1, deadlock)
			}
			if call == migrationAttempts {
				return failing(2, deadlock, file(1))
			}
			return failing(2, deadlock)
		}, want: deadlock, calls: 2*migrationAttempts - 1, applied: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, calls := &DB{log: slog.New(slog.DiscardHandler)}, 0
				applied, err := d.apply(t.Context(), "demo", func() ([]*goose.MigrationResult, error) {
					calls++
					if err := test.results(calls); err != nil {
						return nil, err
					}
					return []*goose.MigrationResult{file(1)}, nil
				})
				if !errors.Is(err, test.want) || calls != test.calls || len(applied) != test.applied {
					t.Errorf("%v after %d calls with %d files, want %v after %d with %d", err, calls, len(applied), test.want,
						test.calls, test.applied)
				}
			})
		})
	}
	t.Run("canceled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		d, calls := &DB{log: slog.New(slog.DiscardHandler)}, 0
		_, err := d.apply(ctx, "demo", func() ([]*goose.MigrationResult, error) {
			calls++
			cancel()
			return nil, failing(1, deadlock)
		})
		if !errors.Is(err, deadlock) || calls != 1 {
			t.Errorf("%v after %d calls, want one", err, calls)
		}
	})
}
