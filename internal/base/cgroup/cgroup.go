package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"ingot/internal/base/rootless"
)

// Limits are those of a group; 0 means none.
type Limits struct {
	// Memory is in bytes, swap included.
	Memory int64
	// Processes includes threads.
	Processes int
	// Weight is the share of the processors when others want them too; a group
	// without has 100.
	Weight int
	// Cores is how many processors the group may use at a time.
	Cores float64
	// Spare is how many processors of the machine the group leaves to others, unless it has
	// no more.
	Spare int
}

// Group is a control group below a parent.
type Group struct {
	parent, name string
	trees        trees
}

// Make creates a group, or changes the limits of one that exists. The limits of the parent are
// those of all its groups together.
func Make(parent string, all Limits, name string, l Limits) (*Group, error) {
	t, err := find()
	if err != nil {
		return nil, err
	}
	g := &Group{parent: Place(t.unified, parent, name), name: name, trees: t}
	parents.Lock()
	defer parents.Unlock()
	for range attempts {
		if err = t.make(g.parent, all); err == nil {
			err = t.make(g.path(), l)
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
			break
		}
	}
	return g, err
}

// slice is systemd's slice of apps and servers of services, if it has been started:
// packaging/ingot.slice. It is neither the root, which belongs to systemd, nor the server's
// unit, which they outlive.
const slice = "ingot.slice"

// Place returns the path of the parent of a group: in the slice if there is one, and else, or
// for a group made before the slice was started, at the top. root is the mount point of version
// 2; version 1, with an empty root, has no slice. An ordinary user has one group, and all others
// are in it.
func Place(root, parent, name string) string {
	if s := rootless.Current(); s != nil {
		return within(s.Group, parent)
	}
	if root == "" || exists(filepath.Join(root, parent, name)) || !exists(filepath.Join(root, slice)) {
		return parent
	}
	return filepath.Join(slice, parent)
}

// Places returns all paths that a parent may have.
func Places(parent string) []string {
	if s := rootless.Current(); s != nil {
		return []string{within(s.Group, parent)}
	}
	return []string{parent, filepath.Join(slice, parent)}
}

// within returns the path of a group in another one, which it may be in already.
func within(group, path string) string {
	if strings.HasPrefix(path, group+"/") {
		return path
	}
	return filepath.Join(group, path)
}

// parents is held while a parent is made or removed: the last of its groups takes it along.
var parents sync.Mutex

// attempts is how often a group is made while another process removes its parent.
const attempts = 5

func (g *Group) path() string { return g.parent + "/" + g.name }

// Start starts a command in the group.
func (g *Group) Start(cmd *exec.Cmd) error {
	if g == nil {
		return cmd.Start()
	}
	done, err := g.trees.enter(g.path(), cmd)
	if err != nil {
		return err
	}
	defer done()
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := g.trees.add(g.path(), cmd.Process.Pid); err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // killed
		return err
	}
	return nil
}

// OOMKills returns how many processes of the group the kernel has killed because of the
// memory limit.
func (g *Group) OOMKills() int64 { return g.trees.oomKills(g.path()) }

// Remove deletes a group without processes, and its parent if that has no other.
func (g *Group) Remove() error {
	err := g.trees.remove(g.path())
	parents.Lock()
	defer parents.Unlock()
	g.trees.removeEmpty(g.parent)
	return err
}

// RemoveAll deletes a parent with its groups, which have no processes.
func RemoveAll(parent string) error {
	t, err := find()
	if err != nil {
		return nil //nolint:nilerr // there are none
	}
	var errs []error
	for _, place := range Places(parent) {
		for _, path := range t.below(place) {
			errs = append(errs, t.remove(path))
		}
		errs = append(errs, t.remove(place))
	}
	return errors.Join(errs...)
}

// ErrNone means that this machine has no control groups that can be used.
var ErrNone = errors.New("no control groups for memory, processes and processors")

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
