// Package mounts says how directories are mounted: which mount a path is on, and which
// options of that mount forbid what a directory is used for. Debian mounts /run with
// noexec, and hardening guides recommend noexec, nodev and nosuid for /tmp and /var.
//
// Only Linux has a mount table that it reads; elsewhere nothing is forbidden.
//
// Imports: golang.org/x/sys/unix.
package mounts
