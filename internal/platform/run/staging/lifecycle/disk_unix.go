//go:build linux || darwin || freebsd

package lifecycle

import "syscall"

// full reports whether the disk is almost full.
func full(dir string) bool {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return false
	}
	return int64(st.Bavail)*int64(st.Bsize) < 64<<10 //nolint:unconvert // the types differ by system
}
