package archive

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// fSetLease is F_SETLEASE of Linux.
const fSetLease = 1024

// settle waits until no process has a program open for writing, since it cannot be
// run before. Only this process opens it; but a child process has a copy of all
// open files until it runs its own program, which may take a while.
func settle(in *os.Root, name string) error {
	f, err := in.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	for pause := 10 * time.Microsecond; pause < 10*time.Second; pause *= 2 {
		var errno syscall.Errno
		err := conn.Control(func(fd uintptr) {
			// The kernel gives a lease for reading only on a file that no process has open for writing.
			// It ends with the file.
			_, _, errno = syscall.Syscall(syscall.SYS_FCNTL, fd, fSetLease, syscall.F_RDLCK)
		})
		if err != nil {
			return err
		}
		if !errors.Is(errno, syscall.EAGAIN) {
			return nil // also where there are no leases, and so nothing to be known
		}
		time.Sleep(pause)
	}
	return nil // give up: the run reports it if the file is still open
}
