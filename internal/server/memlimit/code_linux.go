package memlimit

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// ReleaseCode unmaps the pages of the program's code and constants from memory.
// Those that are still needed are mapped again on their next use, from the file
// cache. Call it once when the process is ready: much of a large program is used
// only while it starts, and counts as its memory from then on.
func ReleaseCode() error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer maps.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		start, end, ok := codeRange(lines.Text(), self)
		if !ok {
			continue
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, start, end-start, syscall.MADV_DONTNEED); errno != 0 {
			return errno
		}
	}
	return lines.Err()
}

// codeRange parses a line of /proc/PID/maps. It is true for private mappings of the
// file that cannot be written to: dropping other pages would lose their content.
func codeRange(line, file string) (start, end uintptr, ok bool) {
	var mode, offset, device string
	var inode uint64
	if n, err := fmt.Sscanf(line, "%x-%x %s %s %s %d", &start, &end, &mode, &offset, &device, &inode); err != nil ||
		n != 6 {
		return 0, 0, false
	}
	return start, end, strings.HasSuffix(line, " "+file) && strings.HasPrefix(mode, "r-") && strings.HasSuffix(mode, "p")
}
