//go:build !unix

package db

import "context"

// lockFile does nothing, because there is no portable lock between processes.
// Two processes must not start at the same time on one SQLite file.
func lockFile(context.Context, string) (unlock func(), err error) { return func() {}, nil }
