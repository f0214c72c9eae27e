//go:build linux

package agentserver

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/homedir"
	"ingot/internal/platform/instance/initproto"
)

// diskFresh is how long the size of the home directory is used.
const diskFresh = time.Minute

// usage measures what the instance uses.
type usage struct {
	group cgroup

	mu      sync.Mutex
	disk    int64
	diskAt  time.Time
	walking bool
}

func newUsage() usage {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return usage{}
	}
	return usage{group: findCgroup("/sys/fs/cgroup", string(groups), os.Getpid() == 1)}
}

func (a *Agent) serveUsage(c *agentproto.Conn) error {
	if err := a.wasLaunched(); err != nil {
		return err
	}
	u := a.usage.group.read()
	table := readTable()
	if a.usage.group == (cgroup{}) {
		u = table.below(os.Getpid())
	}
	u.Time, u.Disk = time.Now().UTC(), a.usage.diskOf(a.c.Home)
	a.mu.Lock()
	u.MemoryLimit = a.launch.memory
	state := a.state
	a.mu.Unlock()
	u.Members = table.members(state)
	return c.SendJSON(agentproto.Document, u)
}

// diskOf returns the size of the home directory, which is measured at most once a minute.
func (u *usage) diskOf(home string) int64 {
	u.mu.Lock()
	if u.walking || !u.diskAt.IsZero() && time.Since(u.diskAt) < diskFresh {
		defer u.mu.Unlock()
		return u.disk
	}
	u.walking = true
	u.mu.Unlock()
	n, err := homedir.Size(context.Background(), home)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.walking = false
	if err == nil {
		u.disk, u.diskAt = n, time.Now()
	}
	return u.disk
}

// cgroup are the folders of the instance's control group. With version 2 they are the same.
type cgroup struct {
	memory, cpu string
	v2          bool
}

// findCgroup finds the folders below root. groups is the content of /proc/self/cgroup.
// Inside a container the group is often at the root itself, whatever the path is outside.
// The root of a machine says nothing about the instance.
func findCgroup(root, groups string, first bool) (c cgroup) {
	for line := range strings.Lines(groups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		paths := []string{fields[2]}
		if first {
			paths = append(paths, "/")
		}
		for _, path := range paths {
			if strings.Trim(path, "/") == "" && !first {
				continue
			}
			for controller := range strings.SplitSeq(fields[1], ",") {
				switch dir := filepath.Join(root, controller, path); {
				case controller == "" && c.memory == "" && exists(dir, "memory.current"):
					return cgroup{memory: dir, cpu: dir, v2: true}
				case controller == "memory" && c.memory == "" && exists(dir, "memory.usage_in_bytes"):
					c.memory = dir
				case controller == "cpuacct" && c.cpu == "" && exists(dir, "cpuacct.usage"):
					c.cpu = dir
				}
			}
		}
	}
	if c.memory == "" || c.cpu == "" {
		return cgroup{}
	}
	return c
}

func exists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// read reads the group's files. What cannot be read is zero.
func (c cgroup) read() (u agentproto.Usage) {
	if c.v2 {
		u.Memory = number(c.memory, "memory.current", "") - number(c.memory, "memory.stat", "inactive_file")
		u.OOMKills = number(c.memory, "memory.events", "oom_kill")
		u.CPUTime = time.Duration(number(c.cpu, "cpu.stat", "usage_usec")) * time.Microsecond
		return u
	}
	u.Memory = number(c.memory, "memory.usage_in_bytes", "") - number(c.memory, "memory.stat", "total_inactive_file")
	u.OOMKills = number(c.memory, "memory.oom_control", "oom_kill")
	u.CPUTime = time.Duration(number(c.cpu, "cpuacct.usage", ""))
	return u
}

// number reads a number from a file: the only one, or the one after a key.
func number(dir, name, key string) int64 {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(content)) {
		value, ok := strings.TrimSpace(line), true
		if key != "" {
			value, ok = strings.CutPrefix(value, key+" ")
		}
		if ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

// table is the process table of the instance, by pid.
type table map[int]proc

type proc struct {
	initproto.Lineage
	used agentproto.Usage
}

// readTable reads it. Processes that end meanwhile may be missing.
func readTable() table {
	t := table{}
	dir, err := os.Open("/proc")
	if err != nil {
		return t
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if one, ok := parseStat("/proc/" + name + "/stat"); ok {
				t[pid] = one
			}
		}
	}
	return t
}

// below sums up a process and its descendants, where there is no control group.
func (t table) below(root int) (u agentproto.Usage) {
	for pid, one := range t {
		at := pid
		for depth := 0; at != root && at > 0 && depth < 1000; depth++ {
			at = t[at].Parent
		}
		if at == root {
			u.CPUTime += one.used.CPUTime
			u.Memory += one.used.Memory
		}
	}
	return u
}

// members sums up the processes of each member; state is that of the instance as JSON. A Pod
// does not hand over its control group, so members have none of their own.
func (t table) members(state []byte) (list []agentproto.MemberUsage) {
	var s initproto.State
	if json.Unmarshal(state, &s) != nil {
		return nil // not launched yet
	}
	pids := make([]int, len(s.Members))
	for i, m := range s.Members {
		text, err := json.Marshal(m)
		if err != nil {
			return nil
		}
		list = append(list, agentproto.MemberUsage{State: text})
		if !m.Exited && !m.Waiting {
			pids[i] = m.PID
		}
	}
	lineage := make(map[int]initproto.Lineage, len(t))
	for pid, one := range t {
		lineage[pid] = one.Lineage
	}
	for pid, i := range initproto.Owners(pids, lineage) {
		list[i].CPUTime += t[pid].used.CPUTime
		list[i].Memory += t[pid].used.Memory
	}
	return list
}

// ticks is how many there are in a second, on every Linux.
const ticks = 100

// parseStat reads /proc/PID/stat: pid (name) state parent group session …
func parseStat(file string) (e proc, ok bool) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return e, false
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 22 {
		return e, false
	}
	field := func(i int) int64 {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		return n
	}
	for i := 11; i <= 14; i++ { // in user and system mode, also of children that exited
		e.used.CPUTime += time.Duration(field(i)) * time.Second / ticks
	}
	e.used.Memory = field(21) * int64(os.Getpagesize())
	e.Lineage = initproto.Lineage{Parent: int(field(1)), Session: int(field(3))}
	return e, true
}
