// Ingot-sftp serves the files of an app instance to sftp and scp, over its
// standard input and output. The ssh gateway starts it inside the instance, as
// the instance's user; therefore it must be static, and uses the standard library
// only. With --replace DIR it replaces files of a directory by those of a tar stream
// on its standard input: so the server renews the certificates of instances, and the
// credentials in their service files. Arguments PID:SIGNAL after it name processes that get a
// signal when all files are replaced.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"ingot/internal/platform/edge/sshd/sftp"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 1:
		err = sftp.Serve(os.Stdin, os.Stdout)
	case len(os.Args) >= 3 && os.Args[1] == "--replace":
		if err = sftp.Replace(os.Args[2], os.Stdin); err == nil {
			err = signalAll(os.Args[3:])
		}
	default:
		fmt.Fprintln(os.Stderr, "ingot-sftp: it takes no arguments; it speaks SFTP on standard input and output, and is "+
			"started by `ingot up`")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ingot-sftp:", err)
		os.Exit(1)
	}
}

// signalAll signals processes, given as PID:SIGNAL. One that has exited needs no signal.
func signalAll(list []string) (all error) {
	for _, one := range list {
		pid, number, _ := strings.Cut(one, ":")
		id, err := strconv.Atoi(pid)
		if err != nil || id <= 1 {
			return fmt.Errorf("%q is not PID:SIGNAL", one)
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > 64 {
			return fmt.Errorf("%q is not PID:SIGNAL", one)
		}
		if err := syscall.Kill(id, syscall.Signal(n)); err != nil && !errors.Is(err, syscall.ESRCH) {
			all = errors.Join(all, fmt.Errorf("signal %d to process %d: %w", n, id, err))
		}
	}
	return all
}
