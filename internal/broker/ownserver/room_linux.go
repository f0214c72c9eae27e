package ownserver

import "golang.org/x/sys/unix"

// overcommit is the ratio of the limits of all servers that run to the memory of the machine:
// most use a small part of theirs.
const overcommit = 2

// Room returns how much memory the servers that run may be allowed together.
func Room() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 4 << 30
	}
	return overcommit * int64(info.Totalram) * int64(info.Unit) //nolint:gosec // far below 2^63
}
