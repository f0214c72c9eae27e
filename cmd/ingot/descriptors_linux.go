package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// keepDescriptors prevents child processes from inheriting descriptors that the
// server itself inherited, except standard input, output and error. Go opens
// files with close-on-exec; but a shell or supervisor may have passed on its own
// files, and instances, which outlive the server, would hold them open or could
// read them.
func keepDescriptors() error {
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		return fmt.Errorf("open files cannot be listed, apps inherit those that the server was started with: %w", err)
	}
	for _, entry := range all {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}
