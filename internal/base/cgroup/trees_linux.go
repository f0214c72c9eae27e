package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/rootless"
)

// trees holds the mount points of the control groups: one (version 2), or one for each
// controller (version 1).
type trees struct {
	unified           string
	memory, pids, cpu string
	cpuset, blkio     string // version 1, and not on every machine
}

var needed = []string{"memory", "pids", "cpu"}

func find() (trees, error) {
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return trees{}, err
	}
	var t trees
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		options := strings.Split(f[3], ",")
		switch f[2] {
		case "cgroup2":
			text, _ := os.ReadFile(filepath.Join(f[1], "cgroup.controllers"))
			has := strings.Fields(string(text))
			if !slices.ContainsFunc(needed, func(name string) bool { return !slices.Contains(has, name) }) {
				t.unified = f[1]
			}
		case "cgroup":
			for name, to := range map[string]*string{
				"memory": &t.memory, "pids": &t.pids, "cpu": &t.cpu, "cpuset": &t.cpuset, "blkio": &t.blkio,
			} {
				if slices.Contains(options, name) {
					*to = f[1]
				}
			}
		}
	}
	if t.unified == "" && rootless.Current() != nil {
		// With version 1, an ordinary user cannot move processes of other ids.
		return t, fmt.Errorf("%w for ordinary users in version 1", ErrNone)
	}
	if t.unified == "" && (t.memory == "" || t.pids == "" || t.cpu == "") {
		return t, ErrNone
	}
	return t, nil
}

func (t trees) points() []string {
	if t.unified != "" {
		return []string{t.unified}
	}
	return slices.Compact([]string{t.memory, t.pids, t.cpu})
}

// more returns the trees in which a group may be in addition.
func (t trees) more() []string {
	if t.unified != "" || t.cpuset == "" || slices.Contains(t.points(), t.cpuset) {
		return nil
	}
	return []string{t.cpuset}
}

// make creates a group and sets its limits.
func (t trees) make(path string, l Limits) error {
	for _, point := range t.points() {
		dir := filepath.Join(point, path)
		if t.unified != "" {
			// The groups above have to pass the controllers on.
			if err := set(filepath.Join(filepath.Dir(dir), "cgroup.subtree_control"),
				"+"+strings.Join(needed, " +")); err != nil {
				return err
			}
		}
		if err := os.Mkdir(dir, 0o755); err != nil && //nolint:gosec // anyone may read a control group
			!errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	t.spare(path, l)
	if t.unified != "" {
		return t.limit(path, l)
	}
	return t.limitOld(path, l)
}

const period = 100_000 // microseconds, the kernel's default

func (t trees) limit(path string, l Limits) error {
	file := func(name string) string { return filepath.Join(t.unified, path, name) }
	var errs []error
	if l.Memory > 0 {
		errs = append(errs, set(file("memory.max"), number(l.Memory)))
		if exists(file("memory.swap.max")) { // not if the kernel counts no swap
			errs = append(errs, set(file("memory.swap.max"), "0"))
		}
	}
	if l.Processes > 0 {
		errs = append(errs, set(file("pids.max"), number(int64(l.Processes))))
	}
	if l.Weight > 0 {
		errs = append(errs, set(file("cpu.weight"), number(int64(l.Weight))))
	}
	if l.Cores > 0 {
		errs = append(errs, set(file("cpu.max"), number(int64(l.Cores*period))+" "+number(period)))
	}
	return errors.Join(errs...)
}

func (t trees) limitOld(path string, l Limits) error {
	memory := func(name string) string { return filepath.Join(t.memory, path, name) }
	var errs []error
	if l.Memory > 0 {
		// The limit of both is never below the memory limit.
		both := memory("memory.memsw.limit_in_bytes")
		counts := exists(both)
		if counts {
			errs = append(errs, set(both, "-1"))
		}
		errs = append(errs, set(memory("memory.limit_in_bytes"), number(l.Memory)))
		if counts {
			errs = append(errs, set(both, number(l.Memory)))
		} else {
			errs = append(errs, set(memory("memory.swappiness"), "0"))
		}
	}
	if l.Processes > 0 {
		errs = append(errs, set(filepath.Join(t.pids, path, "pids.max"), number(int64(l.Processes))))
	}
	if l.Weight > 0 {
		errs = append(errs, set(filepath.Join(t.cpu, path, "cpu.shares"), number(int64(max(2, l.Weight*1024/100)))))
	}
	if quota := filepath.Join(t.cpu, path, "cpu.cfs_quota_us"); l.Cores > 0 && exists(quota) {
		errs = append(errs, set(quota, number(int64(l.Cores*period))))
	}
	return errors.Join(errs...)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// set writes to a file of a group. It never creates one: a kernel may lack it.
func set(file, value string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// enter makes a command start in the group, if the kernel can do that. It returns what has to
// be called after the start.
func (t trees) enter(path string, cmd *exec.Cmd) (done func(), err error) {
	if t.unified == "" {
		return func() {}, nil
	}
	dir, err := os.Open(filepath.Join(t.unified, path))
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return func() { _ = dir.Close() }, nil
}

// add moves a process that was just started to the group, and the children that it may have by
// then.
func (t trees) add(path string, pid int) error {
	if t.unified != "" {
		return nil // it was started there
	}
	for i, point := range slices.Concat(t.points(), t.more()) {
		procs := filepath.Join(point, path, "cgroup.procs")
		if err := set(procs, number(int64(pid))); err != nil && i >= len(t.points()) {
			break
		} else if err != nil {
			return err
		}
		for _, child := range children(pid) {
			if err := set(procs, number(int64(child))); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return nil
}

func children(pid int) (pids []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for word := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(word); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}

func (t trees) oomKills(path string) int64 {
	file := filepath.Join(t.memory, path, "memory.oom_control")
	if t.unified != "" {
		file = filepath.Join(t.unified, path, "memory.events")
	}
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			n, _ := strconv.ParseInt(count, 10, 64) // 0 for what is not a number
			return n
		}
	}
	return 0
}

// below returns the groups below a parent, in any tree.
func (t trees) below(parent string) (paths []string) {
	for _, point := range slices.Concat(t.points(), t.more()) {
		entries, _ := os.ReadDir(filepath.Join(point, parent))
		for _, e := range entries {
			if path := filepath.Join(parent, e.Name()); e.IsDir() && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// removeEmpty deletes a parent that has no groups.
func (t trees) removeEmpty(parent string) {
	for _, point := range slices.Concat(t.points(), t.more()) {
		_ = syscall.Rmdir(filepath.Join(point, parent)) // fails while it has groups
	}
}

// leaveTime is how long a process that has ended may stay in its group.
const leaveTime = 2 * time.Second

func (t trees) remove(path string) error {
	deadline := time.Now().Add(leaveTime)
	var errs []error
	for _, point := range slices.Concat(t.points(), t.more()) {
		dir := filepath.Join(point, path)
		err := syscall.Rmdir(dir)
		for errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond)
			err = syscall.Rmdir(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, &os.PathError{Op: "rmdir", Path: dir, Err: err})
		}
	}
	return errors.Join(errs...)
}
