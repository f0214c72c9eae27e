package main

import (
	"runtime"
	"syscall"
)

const nonBlock = syscall.O_NONBLOCK

// readAs reads a file with the rights of a user, since ingot-init may not read the files of
// others; 0 means its own.
func readAs(user int, path string) ([]byte, error) {
	if user > 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		before, _, _ := syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(user), 0, 0)
		defer syscall.RawSyscall(syscall.SYS_SETFSUID, before, 0, 0) //nolint:errcheck // it reports no errors
	}
	return readPEM(path)
}
