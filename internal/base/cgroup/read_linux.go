package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// number reads a number from a file of a group; with a key, from its line "key number", or 0 if
// there is none.
func (t *Tree) number(controller, group, name, key string) (int64, error) {
	content, err := os.ReadFile(t.file(controller, group, name))
	if err != nil {
		return 0, err
	}
	if key == "" {
		return strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, nil
}

// either returns the name of a file in version 2, or its name in version 1.
func (t *Tree) either(name, old string) string {
	if t.V2 {
		return name
	}
	return old
}

// OOMKills returns how many processes of a group, and of those below, the kernel has killed because
// memory ran out. It is the only proof: status 137 alone does not show the reason.
func (t *Tree) OOMKills(group string) (int64, error) {
	kills, err := t.number("memory", group, t.either("memory.events", "memory.oom_control"), "oom_kill")
	if t.V2 {
		return kills, err
	}
	// Version 1 counts a kill only in the group of the process.
	for _, below := range subgroups(t.file("memory", group, "")) {
		n, _ := t.number("memory", filepath.Join(group, filepath.Base(below)), "memory.oom_control", "oom_kill")
		kills += n
	}
	return kills, err
}

// Memory returns the memory usage of a group, without cached files that the kernel would
// drop first.
func (t *Tree) Memory(group string) (int64, error) {
	used, err := t.number("memory", group, t.either("memory.current", "memory.usage_in_bytes"), "")
	if err != nil {
		return 0, err
	}
	cached, err := t.number("memory", group, "memory.stat", t.either("inactive_file", "total_inactive_file"))
	return max(used-cached, 0), err
}

// CPU returns the processor time that a group has used.
func (t *Tree) CPU(group string) (time.Duration, error) {
	if t.V2 {
		us, err := t.number("cpu", group, "cpu.stat", "usage_usec")
		return time.Duration(us) * time.Microsecond, err
	}
	ns, err := t.number("cpuacct", group, "cpuacct.usage", "")
	return time.Duration(ns), err
}
