package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

var selfPID = os.Getpid()

// clockTick is the unit of times in /proc/PID/stat, the same on every Linux.
const clockTick = 10 * time.Millisecond

// processorTime returns the processor time of a process, or 0 where the system does not report it.
func processorTime(pid int) time.Duration {
	_, used := nameAndTime(strconv.Itoa(pid))
	return used
}

// serverTime is processorTime of a server with its workers, which are its child processes with the same name.
func serverTime(pid int) time.Duration {
	name, total := nameAndTime(strconv.Itoa(pid))
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(children)) {
			if its, used := nameAndTime(child); its == name {
				total += used
			}
		}
	}
	return total
}

// nameAndTime returns the name of a process and its processor time.
func nameAndTime(pid string) (name string, used time.Duration) {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", 0
	}
	// The name, in parentheses, may contain any character; the fields after it do
	// not.
	end := strings.LastIndex(string(text), ") ")
	_, name, found := strings.Cut(string(text[:max(end, 0)]), "(")
	if !found {
		return "", 0
	}
	fields := strings.Fields(string(text[end+2:]))
	if len(fields) < 13 {
		return name, 0
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return name, 0
	}
	return name, time.Duration(user+system) * clockTick
}

// memory is the resident memory of a process, in MB of a million bytes.
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
			return m, fmt.Errorf("the system does not report %s", strings.TrimSuffix(name, ":"))
		}
		*into = kib * 1024 / 1e6
	}
	return m, nil
}

// peakMemory returns the peak resident memory of a process since its start or
// since forgetPeak, in MB of a million bytes.
func peakMemory(pid int) (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), "\nVmHWM:")
	var kib float64
	if _, err := fmt.Sscanf(rest, "%f kB", &kib); err != nil || !found {
		return 0, errors.New("the system does not report VmHWM")
	}
	return kib * 1024 / 1e6, nil
}

// forgetPeak resets the peak of a process.
func forgetPeak(pid int) error {
	return os.WriteFile("/proc/"+strconv.Itoa(pid)+"/clear_refs", []byte("5"), 0)
}

// proportionalMemory returns the proportional resident memory (PSS) of a process,
// in MB of a million bytes.
func proportionalMemory(pid int) (float64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	return parseProportional(string(text))
}

func parseProportional(rollup string) (float64, error) {
	_, rest, found := strings.Cut(rollup, "\nPss:")
	var kib float64
	if _, err := fmt.Sscanf(rest, "%f kB", &kib); err != nil || !found {
		return 0, errors.New("the system does not report Pss")
	}
	return kib * 1024 / 1e6, nil
}

// mappings lists the largest parts of the resident memory of a process.
func mappings(pid int) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps")
	if err != nil {
		return err.Error()
	}
	return largestMappings(string(text), 6)
}

func largestMappings(smaps string, most int) string {
	type part struct {
		name string
		kib  int
	}
	var parts []part
	name := ""
	for line := range strings.Lines(smaps) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 5 && strings.Contains(f[0], "-"):
			name = f[1] + " " + strings.Join(append(f[5:], "anonymous")[:1], "")
		case len(f) == 3 && f[0] == "Rss:":
			if kib, err := strconv.Atoi(f[1]); err == nil && kib > 0 {
				parts = append(parts, part{name, kib})
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return b.kib - a.kib })
	var out []string
	for _, p := range parts[:min(most, len(parts))] {
		out = append(out, fmt.Sprintf("%s %d KiB", p.name, p.kib))
	}
	return strings.Join(out, ", ")
}
