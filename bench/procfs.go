package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

var selfPID = os.Getpid()

// clockTick is the unit of times in /proc/PID/stat, the same on every Linux.
const clockTick = 10 * time.Millisecond

// processorTime is what a process has used so far; 0 where the system does not
// tell.
func processorTime(pid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything; the fields after it do not.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * clockTick
}

// memory is what a process has resident, in MB of a million bytes.
type memory struct{ total, anonymous, file float64 }

func residentMemory(pid int) (memory, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return memory{}, err
	}
	return parseMemory(string(text))
}

func parseMemory(status string) (m memory, err error) {
	for name, into := range map[string]*float64{"VmRSS:": &m.total, "RssAnon:": &m.anonymous, "RssFile:": &m.file} {
		_, rest, found := strings.Cut("\n"+status, "\n"+name)
		var kib float64
		if _, err := fmt.Sscanf(rest, "%f kB", &kib); err != nil || !found {
			return m, fmt.Errorf("the system does not tell %s", strings.TrimSuffix(name, ":"))
		}
		*into = kib * 1024 / 1e6
	}
	return m, nil
}
