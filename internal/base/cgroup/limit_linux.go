package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// High returns the usage from which the kernel takes memory back from a group with a memory limit, and
// slows it down: 1/32 before the limit, at most 32 MB. That is room for about two seconds of slowed
// allocations, in which caches are given up; the delay grows with the square of the part that is above,
// so that a larger distance would stop a program for minutes that has nothing to give up instead of
// ending it. docs/decisions/0057-cgroup-v2.md has the figures.
func High(limit int64) int64 { return limit - min(limit/32, 32<<20) }

// sharesOfDefault is what version 1 calls a weight of 100.
const sharesOfDefault = 1024

// WeightOf converts the shares of version 1 to a weight. runc's own formulas differ by release: 1024
// shares are a weight of 39 up to 1.3, and of 100 later.
func WeightOf(shares int) int {
	return min(max((shares*100+sharesOfDefault/2)/sharesOfDefault, 1), 10000)
}

// ForInstance returns the files of version 2 that a container runtime has to write in addition to the
// limits it knows, with their values.
func (t *Tree) ForInstance(memory int64, shares int) map[string]string {
	if !t.V2 {
		return nil
	}
	weight := WeightOf(shares)
	files := map[string]string{"memory.high": digits(High(memory)), "cpu.weight": digits(int64(weight))}
	switch name := t.disk(); name {
	case "io.bfq.weight":
		files[name] = digits(int64(min(weight, 1000)))
	case "io.weight":
		files[name] = digits(int64(weight))
	}
	return files
}

// DiskWeights reports whether instances share a disk by their weights.
func (t *Tree) DiskWeights() bool { return t.disk() != "" }

// diskWeights returns the file by which groups share a disk; "" if no disk of this machine is shared by
// weight. That needs the scheduler bfq, or io.cost enabled for a disk.
func (t *Tree) diskWeights() string {
	if t.at["io"] == "" {
		return ""
	}
	schedulers, _ := filepath.Glob("/sys/block/*/queue/scheduler") // the pattern is valid
	if slices.ContainsFunc(schedulers, func(file string) bool { return strings.Contains(text(file), "[bfq]") }) {
		return "io.bfq.weight"
	}
	if strings.Contains(text(filepath.Join(t.at["io"], "io.cost.qos")), "enable=1") {
		return "io.weight"
	}
	return ""
}

const period = 100_000 // microseconds, the kernel's default

// Limit sets the limits of a group, and checks that the one of memory is in force.
func (t *Tree) Limit(group string, l Limits) error {
	var errs []error
	set := func(controller, name string, value int64) {
		errs = append(errs, t.write(controller, group, name, digits(value)))
	}
	if l.Memory > 0 {
		errs = append(errs, t.limitMemory(group, l))
	}
	if l.Processes > 0 {
		set("pids", "pids.max", int64(l.Processes))
	}
	quota := int64(l.Cores * period)
	switch {
	case l.Weight > 0 && t.V2:
		set("cpu", "cpu.weight", int64(l.Weight))
	case l.Weight > 0:
		set("cpu", "cpu.shares", int64(max(2, l.Weight*sharesOfDefault/100)))
	}
	switch {
	case l.Cores > 0 && t.V2:
		errs = append(errs, t.write("cpu", group, "cpu.max", digits(quota)+" "+digits(period)))
	case l.Cores > 0 && exists(t.file("cpu", group, "cpu.cfs_quota_us")):
		set("cpu", "cpu.cfs_quota_us", quota)
	}
	return errors.Join(errs...)
}

func (t *Tree) limitMemory(group string, l Limits) error {
	type setting struct {
		file  string
		value int64
	}
	var all []setting
	switch both := "memory.memsw.limit_in_bytes"; {
	case t.V2:
		all = []setting{{"memory.max", l.Memory}, {"memory.high", High(l.Memory)}}
		if exists(t.file("memory", group, "memory.swap.max")) { // not if the kernel counts no swap
			all = append(all, setting{"memory.swap.max", 0})
		}
		if l.Whole {
			all = append(all, setting{"memory.oom.group", 1})
		}
	case t.CountsSwap(): // the limit of both is never below the memory limit
		all = []setting{{both, -1}, {"memory.limit_in_bytes", l.Memory}, {both, l.Memory}}
	default:
		all = []setting{{"memory.limit_in_bytes", l.Memory}, {"memory.swappiness", 0}}
	}
	for _, s := range all {
		if err := t.write("memory", group, s.file, digits(s.value)); err != nil {
			return err
		}
	}
	page := int64(os.Getpagesize())
	return t.CheckMemory(group, l.Memory/page*page)
}

// CheckMemory returns an error if a memory limit is not in force, or can be exceeded with swap.
func (t *Tree) CheckMemory(group string, limit int64) error {
	found, err := t.number("memory", group, t.either("memory.max", "memory.limit_in_bytes"), "")
	switch {
	case err != nil:
		return fmt.Errorf("memory limit: %w", err)
	case found != limit:
		return fmt.Errorf("its memory limit is %d instead of %d", found, limit)
	case !t.V2 && !t.CountsSwap():
		if n, err := t.number("memory", group, "memory.swappiness", ""); err != nil || n != 0 {
			return fmt.Errorf("swap cannot be limited: swappiness is %d (%w)", n, err)
		}
		return nil
	}
	want := limit
	if t.V2 {
		want = 0
	}
	swap, err := t.number("memory", group, t.either("memory.swap.max", "memory.memsw.limit_in_bytes"), "")
	switch {
	case errors.Is(err, fs.ErrNotExist) && t.V2 && !hasSwap():
		return nil // a kernel that does not count swap, and there is none
	case err != nil:
		return fmt.Errorf("swap cannot be limited: %w", err)
	case swap != want:
		return fmt.Errorf("its limit of swap is %d instead of %d", swap, want)
	}
	return nil
}

// CountsSwap reports whether limits of memory and swap together can be set.
func (t *Tree) CountsSwap() bool {
	return t.V2 || exists(t.file("memory", "", "memory.memsw.limit_in_bytes"))
}

// hasSwap reports whether the machine has swap, or does not tell.
func hasSwap() bool {
	b, err := os.ReadFile("/proc/swaps")
	return err != nil || strings.Count(strings.TrimSpace(string(b)), "\n") > 0
}

// Processes returns the limit of processes in force.
func (t *Tree) Processes(group string) (int64, error) { return t.number("pids", group, "pids.max", "") }

// CheckHierarchy returns an error if memory of groups below a group does not count for it: kernels
// before 5.11 let version 1 do without.
func (t *Tree) CheckHierarchy(group string) error {
	if !t.V2 && text(t.file("memory", group, "memory.use_hierarchy")) == "0" {
		return errors.New("memory.use_hierarchy is off: memory of a member would not count for its instance")
	}
	return nil
}

// spare keeps a group off the first processors of the machine. A share alone does not help a
// program that waits for a processor in short steps, such as one that commits transactions: each
// time it waits until the time slice of another one is over.
func (t *Tree) spare(group string, n int) error {
	if t.at["cpuset"] == "" {
		return errors.New("the controller cpuset is missing")
	}
	above := filepath.Dir(group)
	if t.V2 {
		if n == 0 {
			return nil // those of the group above
		}
		if err := t.passDown(above, "cpuset"); err != nil {
			return err
		}
	} else if err := t.write("cpuset", group, "cpuset.mems", text(t.file("cpuset", above, "cpuset.mems"))); err != nil {
		return err // a new group has none, and no process can be in it
	}
	all := text(t.file("cpuset", above, t.either("cpuset.cpus.effective", "cpuset.cpus")))
	return t.write("cpuset", group, "cpuset.cpus", without(all, n))
}

// without returns a list of processors (0-3,6) without the first n of them, or as it is if
// there are not more.
func without(list string, n int) string {
	var all []string
	for part := range strings.SplitSeq(list, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, lastErr := strconv.Atoi(to)
		if err != nil || lastErr != nil {
			return list
		}
		for i := first; i <= last; i++ {
			all = append(all, strconv.Itoa(i))
		}
	}
	if len(all) <= n {
		return list
	}
	return strings.Join(all[n:], ",")
}

func digits(n int64) string { return strconv.FormatInt(n, 10) }
