package testkit

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shiftedClock replaces clock_gettime in the vDSO of a process: it makes the system call and
// adds the seconds behind it to the time of day. The monotonic clock stays as it is.
var shiftedClock = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi (CLOCK_REALTIME)
	0x75, 0x0a, // jne ret
	0x48, 0x8b, 0x0d, 0x04, 0x00, 0x00, 0x00, // mov rcx, [rip+4]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
}

// SetClock sets the clock of another process, and of no other: from now on it differs by that
// much from the machine's. The process has to be a Go program.
func SetClock(t testing.TB, pid int, by time.Duration) {
	t.Helper()
	at, err := vdsoClock(pid)
	if err != nil {
		t.Skipf("the clock of a process cannot be set here: %v", err)
	}
	code := binary.LittleEndian.AppendUint64(bytes.Clone(shiftedClock), //nolint:gosec // two's complement
		uint64(by/time.Second))
	if err := stopped(pid, at, uint64(len(code)), func() error {
		f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteAt(code, int64(at)) //nolint:gosec // an address of a user
		return errors.Join(err, f.Close())
	}); err != nil {
		t.Fatalf("set the clock of process %d: %v", pid, err)
	}
}

// vdsoClock returns the address of clock_gettime in the vDSO of a process.
func vdsoClock(pid int) (uint64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		var from, to uint64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
			return 0, err
		}
		return clockIn(pid, from, to)
	}
	return 0, errors.New("the process has no vDSO")
}

// clockIn returns the address of clock_gettime in the vDSO that is mapped at from.
func clockIn(pid int, from, to uint64) (uint64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	image := make([]byte, to-from)
	if _, err := f.ReadAt(image, int64(from)); err != nil { //nolint:gosec // as above
		return 0, err
	}
	parsed, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := parsed.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size > uint64(len(shiftedClock))+8 {
			return from + s.Value, nil
		}
	}
	return 0, errors.New("the vDSO of the process has no clock_gettime")
}

// stopped calls do while a process is stopped and none of its threads is at an address.
func stopped(pid int, at, size uint64, do func() error) error {
	for {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			return err
		}
		busy, err := executing(pid, at, size)
		if err == nil && !busy {
			err = do()
		}
		if err := errors.Join(err, syscall.Kill(pid, syscall.SIGCONT)); err != nil || !busy {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// executing reports whether a thread still runs, or is stopped at an address.
func executing(pid int, at, size uint64) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return false, err
		}
		fields := strings.Fields(string(text))
		if len(fields) < 3 { // "running"
			return true, nil
		}
		pc, err := strconv.ParseUint(fields[len(fields)-1], 0, 64)
		if err != nil {
			return false, err
		}
		if pc >= at && pc < at+size {
			return true, nil
		}
	}
	return false, nil
}
