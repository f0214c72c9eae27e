//go:build !linux

package ownserver

// Room returns how much memory the servers that run may be allowed together.
func Room() int64 { return 4 << 30 }
