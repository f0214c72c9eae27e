package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shedAfter is how long the memory of the start is kept: until members usually run.
const shedAfter = 5 * time.Second

// shedLater returns memory that only the start needed to the system: on the heap, and pages
// of the program, which are read again when they are needed.
func shedLater() {
	time.AfterFunc(shedAfter, func() {
		debug.FreeOSMemory()
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			return
		}
		for _, m := range readOnlyFiles(string(maps)) {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED) // then they stay
		}
	})
}

type mapping struct{ start, end uintptr }

// readOnlyFiles returns the mappings of files that the process cannot write to, from
// /proc/self/maps: "start-end rights offset device inode path".
func readOnlyFiles(maps string) (all []mapping) {
	for line := range strings.Lines(maps) {
		fields := strings.Fields(line)
		if len(fields) != 6 || fields[1][:2] != "r-" || !strings.HasPrefix(fields[5], "/") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err1 == nil && err2 == nil && start < end {
			all = append(all, mapping{uintptr(start), uintptr(end)})
		}
	}
	return all
}
