package bits

import "io/fs"

// uploadMode returns the mode that an uploaded file gets. Windows has no permission to
// execute, so every file gets it, as with the cf CLI.
func uploadMode(m fs.FileMode) fs.FileMode {
	switch {
	case m.IsRegular():
		return 0o744
	case m.IsDir():
		return fs.ModeDir | 0o755
	}
	return m
}
