// Package loopdisk mounts file systems that are in files, through loop devices: the size of the
// file is a limit that holds for everything in it. It needs root.
//
// Imports: base/cgroup, base/distro, golang.org/x/sys/unix.
package loopdisk
