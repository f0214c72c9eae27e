//go:build linux

package container

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/cgroup"
	"ingot/internal/base/rootless"
	"ingot/internal/platform/instance/initproto"
)

// What differs if an ordinary user started the server, see decision 53: the engine is root of a user
// namespace, which owns the network of the instances and a control group, but no disks.

const (
	// diskDir is the directory of an instance that takes the place of its disk.
	diskDir = "disk"
	// diskInterval is how often the use of these directories is measured.
	diskInterval = 5 * time.Second

	noImages = "Docker images need a server that root has started: the layers of an image cannot be shared in the " +
		"user namespace of an ordinary user."
)

// errNoMemberGroups is why members cannot be limited.
var errNoMemberGroups = errors.New("single processes of an app cannot be limited: the server's user has control " +
	"groups of version 1, where only root can move processes of other users; boot with systemd.unified_cgroup_hierarchy=1")

// alone reports whether members cannot have control groups.
func alone(t *cgroup.Tree) bool { return !t.V2 && rootless.Current() != nil }

// startIn makes a command start in a group. With version 1, runc exec cannot move a process into the group of its
// container, because the process has another id by then, and does not say so. So runc itself enters it first.
func startIn(t *cgroup.Tree, group string, cmd *exec.Cmd) {
	const enter = `while [ "$1" != -- ]; do echo $$ >"$1" || exit 1; shift; done; shift; exec "$@"`
	args := append([]string{"/bin/sh", "-c", enter, "sh"}, t.Members(group)...)
	cmd.Args = slices.Concat(args, []string{"--", cmd.Path}, cmd.Args[1:])
	cmd.Path = args[0]
}

// limitRootless sets what an ordinary user cannot have.
func (e *Engine) limitRootless() {
	if e.userSpace == nil {
		return
	}
	e.about.HardDisk, e.about.NoImages = false, noImages
	if alone(e.groups) {
		e.about.NoMemberLimits = errNoMemberGroups.Error()
	}
}

// describeRootless describes what differs for an ordinary user.
func (e *Engine) describeRootless() string {
	return "; without root, in a user namespace of " + e.userSpace.User + ": an instance that exceeds its disk limit is " +
		"stopped within seconds instead of getting an error, and there are no Docker images"
}

// attach creates the disk of an instance, whose size is the limit. For an ordinary user it is a
// directory whose size is watched.
func (e *Engine) attach(ctx context.Context, in *instance, point string, limit int64) error {
	if e.userSpace == nil {
		return e.disks.attach(ctx, filepath.Join(in.dir.Path(), diskImage), point, limit)
	}
	dir := filepath.Join(in.dir.Path(), diskDir)
	if err := os.Mkdir(dir, 0o711); err != nil { //nolint:gosec // like the root of a disk
		return err
	}
	return bindMount(dir, point)
}

// watchDisks stops instances that exceed their disk limit, where the disk itself does not hold.
func (e *Engine) watchDisks() {
	if e.userSpace == nil || e.options.Leaving {
		return
	}
	e.work.Go("engine disks", func() {
		for background.Sleep(e.open, diskInterval) {
			e.checkDisks(e.open)
		}
	})
}

// checkDisks stops instances that exceed their disk limit.
func (e *Engine) checkDisks(ctx context.Context) {
	list, _ := e.List(ctx, nil) // never fails
	for _, one := range list {
		in, err := e.find(one.ID)
		if err != nil || !in.runs() {
			continue
		}
		limit := in.dir.Meta().Limits.Disk
		used, err := e.diskUse(ctx, in)
		if err != nil || used <= limit {
			continue // it may have ended meanwhile
		}
		e.log.Warn("an instance exceeds its disk limit and is stopped", "instance", one.ID, "used", used, "limit", limit)
		if err := errors.Join(in.overDisk(), in.Init.Signal(syscall.SIGKILL)); err != nil &&
			!errors.Is(err, os.ErrProcessDone) {
			e.log.Warn("stopping an instance failed", "instance", one.ID, "err", err)
		}
	}
}

// overDisk notes why the instance ends.
func (in *instance) overDisk() error {
	return os.WriteFile(filepath.Join(in.dir.Path(), overDiskFile), nil, 0o600)
}

// explainDisk says in the exit of an instance that it was stopped because of its disk.
func (in *instance) explainDisk(state *initproto.State) {
	if _, err := os.Lstat(filepath.Join(in.dir.Path(), overDiskFile)); err != nil {
		return
	}
	state.Exit = &initproto.Exit{Status: 128 + int(syscall.SIGKILL),
		Description: "Instance was stopped because its files exceeded the disk limit"}
}

const overDiskFile = "over-disk"
