//go:build !unix

package db

import (
	"context"
	"log/slog"
)

// OpenedBy returns 0, because it is not known.
func OpenedBy(string) (pid int) { return 0 }

// lockFile does nothing, because there is no portable lock between processes.
// Two processes must not start at the same time on one SQLite file.
func lockFile(context.Context, string, *slog.Logger) (unlock func(), err error) {
	return func() {}, nil
}
