//go:build linux

package agentserver

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// The numbers are the same on every architecture that Go supports, except for MIPS, PowerPC
// and SPARC.
const (
	tiocgptn   = 0x80045430
	tiocsptlck = 0x40045431
	tiocswinsz = 0x5414
)

// openTerminal returns the two ends of a new pseudo-terminal.
func openTerminal() (master, tty *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var number, unlocked uint32
	err = ioctl(master, tiocgptn, unsafe.Pointer(&number))
	if err == nil {
		err = ioctl(master, tiocsptlck, unsafe.Pointer(&unlocked))
	}
	if err == nil {
		name := "/dev/pts/" + strconv.FormatUint(uint64(number), 10)
		tty, err = os.OpenFile(name, os.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	}
	if err != nil {
		_ = master.Close() // nothing was written to it
		return nil, nil, err
	}
	return master, tty, nil
}

// resize sets the size of a terminal.
func resize(master *os.File, columns, rows uint16) error {
	size := [4]uint16{rows, columns}
	return ioctl(master, tiocswinsz, unsafe.Pointer(&size))
}

func ioctl(f *os.File, request uintptr, argument unsafe.Pointer) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	err = conn.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(argument))
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return err
}
