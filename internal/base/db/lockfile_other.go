//go:build !unix

package db

import "context"

// lockFile does nothing: there is no portable lock between processes. Two of them
// must not start at once on one SQLite file.
func lockFile(context.Context, string) (unlock func(), err error) { return func() {}, nil }
