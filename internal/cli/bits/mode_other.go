//go:build !windows

package bits

import "io/fs"

// uploadMode returns the mode that an uploaded file gets: its own.
func uploadMode(m fs.FileMode) fs.FileMode { return m }
