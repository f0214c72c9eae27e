//go:build !linux

package broker

func roomForServers() int64 { return 4 * gib }
