//go:build unix

package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// keepDescriptors has no program that a server starts inherit what it was itself
// given beside standard input, output and error. What we open never is; but a
// shell or a supervisor may have left us its files, and instances, which outlive
// the server, would hold them open, or could read them.
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
