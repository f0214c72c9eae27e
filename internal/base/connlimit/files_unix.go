//go:build unix

package connlimit

import "golang.org/x/sys/unix"

// Files returns the maximum number of open files of this process.
func Files() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return fewFiles
	}
	return int(min(limit.Cur, manyFiles)) //nolint:gosec // bounded
}
