package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ingot/internal/base/rootless"
)

// Group is the control group of a server, below a parent.
type Group struct {
	// Lacks is which limit could not be set because this machine does not support it; the others are in force.
	Lacks error

	tree *Tree
	path string
}

// ours are the controllers of the groups of servers.
var ours = append([]string{"cpuset"}, needed...)

// parents is held while a parent is made or removed: the last of its groups takes it along.
var parents sync.Mutex

// attempts is how often a group is made while another process removes its parent.
const attempts = 5

// Make creates a group, or changes the limits of one that exists. The limits of the parent are
// those of all its groups together.
func Make(parent string, all Limits, name string, l Limits) (*Group, error) {
	t, err := forServers()
	if err != nil {
		return nil, err
	}
	g := &Group{tree: t, path: t.Path(parent, name)}
	parents.Lock()
	defer parents.Unlock()
	for range attempts {
		if g.Lacks, err = t.make(filepath.Dir(g.path), all); err == nil {
			_, err = t.make(g.path, l)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			break
		}
	}
	return g, err
}

// forServers finds the control groups for servers. With version 1, an ordinary user cannot move processes of
// other ids.
func forServers() (*Tree, error) {
	t, err := Find(rootless.Group())
	if err == nil && !t.V2 && rootless.Current() != nil {
		return nil, fmt.Errorf("%w for ordinary users in version 1", ErrNone)
	}
	return t, err
}

// make creates a group and sets its limits.
func (t *Tree) make(group string, l Limits) (lacks, err error) {
	if err := t.passDown(filepath.Dir(group), needed...); err != nil {
		return nil, err
	}
	for _, dir := range t.dirs(group, ours...) {
		if err := os.Mkdir(dir, 0o755); err != nil && //nolint:gosec // anyone may read a control group
			!errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	if err := t.spare(group, l.Spare); err != nil {
		lacks = fmt.Errorf("the processors of a group cannot be chosen: %w", err)
	}
	return lacks, t.Limit(group, l)
}

// Start starts a command in the group.
func (g *Group) Start(cmd *exec.Cmd) error {
	if g == nil {
		return cmd.Start()
	}
	if g.tree.V2 {
		dir, err := os.Open(g.tree.file("memory", g.path, ""))
		if err != nil {
			return err
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
		return cmd.Start()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := g.add(cmd.Process.Pid); err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // killed
		return err
	}
	return nil
}

// add moves a process that was just started to the group, and the children that it may have by
// then: version 1.
func (g *Group) add(pid int) error {
	if err := g.tree.Move(g.path, pid, needed...); err != nil {
		return err
	}
	_ = g.tree.Move(g.path, pid, "cpuset") // see Lacks
	children := text(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for word := range strings.FieldsSeq(children) {
		child, _ := strconv.Atoi(word)
		if err := g.tree.Move(g.path, child, ours...); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// OOMKills returns how many processes of the group the kernel has killed because of the
// memory limit.
func (g *Group) OOMKills() int64 {
	n, _ := g.tree.OOMKills(g.path) // 0 if the group is gone
	return n
}

// leaveTime is how long a process that has ended may stay in its group.
const leaveTime = 2 * time.Second

// Remove deletes a group without processes, and its parent if that has no other.
func (g *Group) Remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	err := g.tree.Remove(ctx, g.path)
	parents.Lock()
	defer parents.Unlock()
	for _, dir := range g.tree.dirs(filepath.Dir(g.path), ours...) {
		_ = syscall.Rmdir(dir) // fails while it has groups
	}
	return err
}

// RemoveAll deletes a parent with its groups, which have no processes.
func RemoveAll(parent string) error {
	t, err := forServers()
	if err != nil {
		return nil //nolint:nilerr // there are none
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	return t.Remove(ctx, parent)
}

// LimitDisk limits how many bytes a second are read from and written to the disk of a file
// system, which is mounted at a path and used by this group alone.
func (g *Group) LimitDisk(point string, reads, writes int64) error {
	device, err := deviceAt(point)
	if err != nil {
		return err
	}
	if !g.tree.V2 {
		return g.tree.throttle(device, reads, writes)
	}
	if err := g.tree.passDown(filepath.Dir(g.path), "io"); err != nil {
		return err
	}
	return g.tree.write("memory", g.path, "io.max", fmt.Sprintf("%s rbps=%d wbps=%d", device, reads, writes))
}

// UnlimitDisk undoes LimitDisk. Otherwise the limit of a loop device would apply to the next
// file system on it.
func UnlimitDisk(point string) {
	t := limited()
	if t == nil || t.V2 { // there the limit is gone with the group
		return
	}
	if device, err := deviceAt(point); err == nil {
		_ = t.throttle(device, 0, 0)
	}
}

// limitedDisks are the control groups for UnlimitDisk, once they were found. Each disk that is mounted asks for them,
// and finding them reads all mounts of the machine. A failure is not kept, so that no limit stays for want of them.
var limitedDisks atomic.Pointer[Tree]

// limited returns the control groups for UnlimitDisk, or nil.
func limited() *Tree {
	if t := limitedDisks.Load(); t != nil {
		return t
	}
	t, err := forServers()
	if err != nil {
		return nil
	}
	limitedDisks.Store(t)
	return t
}

// throttle limits a device for the whole machine: version 1 does not know for which group the
// kernel writes cached data.
func (t *Tree) throttle(device string, reads, writes int64) error {
	if t.at["blkio"] == "" {
		return errors.New("the controller blkio is missing")
	}
	return errors.Join(
		t.write("blkio", "", "blkio.throttle.read_bps_device", fmt.Sprintf("%s %d", device, reads)),
		t.write("blkio", "", "blkio.throttle.write_bps_device", fmt.Sprintf("%s %d", device, writes)))
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
