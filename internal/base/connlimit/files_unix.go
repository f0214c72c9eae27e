//go:build unix

package connlimit

import "golang.org/x/sys/unix"

// Files returns how many files this process may have open.
func Files() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return fewFiles
	}
	return int(min(limit.Cur, manyFiles)) //nolint:gosec // bounded
}
