//go:build !windows

package config

import "os"

// replace renames a file, in place of another.
func replace(from, to string) error { return os.Rename(from, to) }
