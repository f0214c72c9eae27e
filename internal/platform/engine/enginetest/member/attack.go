package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// attack tries everything by which a process could read another one of the same user, and
// prints "open" or "refused" for each.
func attack(args []string) error {
	pid := number(args[0])
	proc := "/proc/" + strconv.Itoa(pid) + "/"
	report := func(name string, err error) {
		result := "open"
		if err != nil {
			result = "refused"
		}
		say(result, name)
	}
	for _, name := range []string{"environ", "maps", "mem", "auxv", "io"} {
		f, err := os.Open(proc + name)
		if err == nil {
			if _, err = f.Read(make([]byte, 16)); name == "mem" {
				err = nil // its first page is never there
			}
			f.Close()
		}
		report(name, err)
	}
	report("fd", readDir(proc+"fd"))
	report("map_files", readDir(proc+"map_files"))
	_, err := os.Readlink(proc + "exe")
	report("exe", err)
	report("oom_score_adj", os.WriteFile(proc+"oom_score_adj", []byte("1000"), 0))
	report("pidfd_getfd", pidfdGetfd(pid))
	report("process_vm_readv", vmRead(pid))
	report("ptrace", ptrace(pid))
	say("attacked")
	return nil
}

func readDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	_, err = d.Readdirnames(-1)
	return err
}

func check(_, _ uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// pidfdGetfd copies a file of another process.
func pidfdGetfd(pid int) error {
	const pidfdOpen, pidfdGetfd = 434, 438
	fd, _, errno := syscall.Syscall(pidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return errno
	}
	var last error
	for n := range uintptr(16) { // some of them are open
		if last = check(syscall.Syscall(pidfdGetfd, fd, n, 0)); last == nil {
			return nil
		}
	}
	return last
}

// vmRead reads memory of another process: at an address that is also in this one, since
// both may run the same program, or else the error shows that only the address is wrong.
func vmRead(pid int) error {
	const processVMReadv = 310 // on amd64
	var b [8]byte
	here := syscall.Iovec{Base: &b[0], Len: uint64(len(b))}
	there := syscall.Iovec{Base: &b[0], Len: uint64(len(b))}
	_, _, errno := syscall.Syscall6(processVMReadv, uintptr(pid), uintptr(unsafe.Pointer(&here)), 1,
		uintptr(unsafe.Pointer(&there)), 1, 0)
	if errno != 0 && errno != syscall.EFAULT {
		return errno
	}
	return nil
}

func ptrace(pid int) error {
	if err := syscall.PtraceAttach(pid); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	_, err := syscall.Wait4(pid, nil, 0x40000000 /* __WALL */, nil)
	if detach := syscall.PtraceDetach(pid); err == nil {
		err = detach
	}
	return err
}
