package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// These limits are set if the machine supports them: a group without them still has its others.

// spare keeps a group off the first processors of the machine. A share alone does not help a
// program that waits for a processor in short steps, such as one that commits transactions: each
// time it waits until the time slice of another one is over.
func (t trees) spare(path string, l Limits) {
	tree, all := t.unified, "cpuset.cpus.effective"
	if tree == "" {
		tree, all = t.cpuset, "cpuset.cpus"
	}
	if tree == "" {
		return
	}
	dir := filepath.Join(tree, path)
	above := filepath.Dir(dir)
	if t.unified == "" {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as the others
			return
		}
		// A new group has none, and no process can be in it.
		_ = set(filepath.Join(dir, "cpuset.mems"), text(filepath.Join(above, "cpuset.mems")))
	} else {
		if l.Spare == 0 {
			return // those of the group above
		}
		t.pass(filepath.Dir(path), "cpuset")
	}
	_ = set(filepath.Join(dir, "cpuset.cpus"), without(text(filepath.Join(above, all)), l.Spare))
}

// pass makes the groups of a path, from the top on, pass a controller on to those below.
func (t trees) pass(path, controller string) {
	dir := t.unified
	for name := range strings.SplitSeq("./"+path, "/") {
		dir = filepath.Join(dir, name)
		_ = set(filepath.Join(dir, "cgroup.subtree_control"), "+"+controller)
	}
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

func text(file string) string {
	content, _ := os.ReadFile(file)
	return strings.TrimSpace(string(content))
}

// LimitDisk limits how many bytes a second are read from and written to the disk of a file
// system, which is mounted at a path and used by this group alone.
func (g *Group) LimitDisk(point string, reads, writes int64) error {
	device, err := deviceAt(point)
	if err != nil {
		return err
	}
	if g.trees.unified != "" {
		g.trees.pass(g.parent, "io")
		rule := fmt.Sprintf("%s rbps=%d wbps=%d", device, reads, writes)
		err = set(filepath.Join(g.trees.unified, g.path(), "io.max"), rule)
	} else {
		err = g.trees.throttle(device, reads, writes)
	}
	return err
}

// UnlimitDisk undoes LimitDisk. Otherwise the limit of a loop device would apply to the next
// file system on it.
func UnlimitDisk(point string) {
	t, err := find()
	if err != nil || t.unified != "" { // there the limit is gone with the group
		return
	}
	if device, err := deviceAt(point); err == nil {
		_ = t.throttle(device, 0, 0)
	}
}

// throttle limits a device for the whole machine: version 1 does not know for which group the
// kernel writes cached data.
func (t trees) throttle(device string, reads, writes int64) error {
	if t.blkio == "" {
		return errors.New("no control groups for disks")
	}
	return errors.Join(
		set(filepath.Join(t.blkio, "blkio.throttle.read_bps_device"), fmt.Sprintf("%s %d", device, reads)),
		set(filepath.Join(t.blkio, "blkio.throttle.write_bps_device"), fmt.Sprintf("%s %d", device, writes)))
}

// deviceAt returns the number of the device that is mounted at a path, such as 7:0.
func deviceAt(point string) (string, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(point, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: point, Err: err}
	}
	major := st.Dev>>8&0xfff | st.Dev>>32&^0xfff
	minor := st.Dev&0xff | st.Dev>>12&^0xff
	return fmt.Sprintf("%d:%d", major, minor), nil
}
