package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"ingot/internal/base/cgroup"
	"ingot/internal/base/daemon"
	"ingot/internal/base/loopdisk"
)

// Everything of a server is on a disk of its own, where that is possible: a file with a file system,
// beside the directory where it is mounted while the server runs. Data, logs and temporary files
// together cannot be more than fits.

// diskTools are the programs that make disks.
type diskTools struct{ mkfs, resize string }

const (
	diskSuffix = ".disk"
	newSuffix  = ".new"
	// reservePercent of a disk is kept for a server that cannot start because the rest is used.
	reservePercent = "3"
	// diskMount: what is deleted is given back, and an error of the disk below does not change more.
	diskMount = "discard,errors=remount-ro"
)

// diskBytes is the size of an instance's disk: for its data, and as much again for temporary
// files, logs of transactions and indexes that are being built.
func diskBytes(i *instance) int64 { return planOf(i).bytes*3/2 + gib/2 }

// groupParent is the name of the group of all servers.
func (c Config) groupParent() string { return "ingot-" + hash(c.Dir)[:8] + "-services" }

// together are the limits of all servers: their share of the processors is that of one other program,
// or service of the machine, and one processor is left to the platform. Among them, all have the same.
var together = cgroup.Limits{Weight: 100, Spare: 1}

func (p plan) limits() cgroup.Limits {
	return cgroup.Limits{Memory: p.memory, Processes: 3*p.connections + 60, Weight: 100, Cores: p.cores}
}

// group returns the group of an instance's server, or nil if this machine has none.
func (c Config) group(i *instance) *cgroup.Group {
	if os.Geteuid() != 0 {
		return nil
	}
	g, err := cgroup.Make(c.groupParent(), together, i.hash(), planOf(i).limits())
	if err != nil {
		c.Log.Warn("a server of a service has no control group: its memory, processes and processor time are not limited", "instance", i.ID, "reason", err)
		return nil
	}
	return g
}

// probe finds out which limits this machine has for servers.
func (o *ownServers) probe(ctx context.Context) {
	o.noGroups = cgroup.ErrNone
	why := errors.New("only root can set them")
	if os.Geteuid() == 0 {
		var group *cgroup.Group
		group, o.noGroups = cgroup.Make(o.config.groupParent(), together, "probe", plan{memory: gib, connections: 1, cores: 1}.limits())
		if o.noGroups == nil {
			o.noGroups = group.Remove()
		}
		o.diskTools, why = o.probeDisks(ctx)
	}
	if o.noGroups != nil {
		o.log.Warn("the servers of databases have no control groups: their memory is limited for each process, their processor time is not", "reason", o.noGroups)
	}
	if o.diskTools == nil {
		o.log.Warn("the servers of databases have no disks of their own: how much they write is watched, and limited with a delay", "reason", why)
	}
}

func (o *ownServers) probeDisks(ctx context.Context) (*diskTools, error) {
	mkfs, err := loopdisk.Program("mkfs.ext4")
	resize, resizeErr := loopdisk.Program("resize2fs")
	if err := errors.Join(err, resizeErr); err != nil {
		return nil, err
	}
	tools := &diskTools{mkfs, resize}
	point := filepath.Join(o.dir, "probe")
	defer os.Remove(point)
	defer os.Remove(point + diskSuffix)
	if err := os.MkdirAll(point, 0o700); err != nil {
		return nil, err
	}
	if err := tools.make(ctx, point+diskSuffix, 16*mib); err != nil {
		return nil, err
	}
	if err := loopdisk.MountOnce(point+diskSuffix, point, diskMount); err != nil {
		return nil, err
	}
	return tools, loopdisk.Unmount(point)
}

// make creates an empty disk. The blocks of a journal are enough for small transactions.
func (t *diskTools) make(ctx context.Context, image string, size int64) error {
	fresh := image + newSuffix
	defer os.Remove(fresh) // does nothing after the rename
	if err := os.WriteFile(fresh, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(fresh, size); err != nil {
		return err
	}
	err := loopdisk.Run(ctx, t.mkfs, "-q", "-F", "-t", "ext4", "-m", reservePercent, "-J", fmt.Sprintf("size=%d", min(8, size/(4*mib))),
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0", fresh)
	if err != nil {
		return err
	}
	return os.Rename(fresh, image)
}

// attach mounts the disk of an instance. One that was created without a disk has none.
func (o *ownServers) attach(ctx context.Context, i *instance) error {
	point := o.dirOf(i)
	image := point + diskSuffix
	if loopdisk.Mounted(point) {
		return nil
	}
	info, err := os.Stat(image)
	switch {
	case errors.Is(err, fs.ErrNotExist) && (o.diskTools == nil || !isEmpty(point)):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := o.diskTools.make(ctx, image, o.disk(i)); err != nil {
			return err
		}
	case err != nil:
		return err
	case o.diskTools != nil && info.Size() != o.disk(i):
		if err := o.diskTools.change(ctx, image, info.Size(), o.disk(i)); err != nil {
			o.log.Warn("change the size of a database's disk failed", "instance", i.ID, "error", err)
		}
	}
	return loopdisk.MountOnce(image, point, diskMount)
}

// change gives a disk that is not mounted another size. One that holds too much keeps its size.
func (t *diskTools) change(ctx context.Context, image string, from, to int64) error {
	if to > from {
		if err := os.Truncate(image, to); err != nil {
			return err
		}
	}
	if err := loopdisk.Run(ctx, t.resize, "-f", image, fmt.Sprintf("%dK", to>>10)); err != nil {
		return errors.Join(err, os.Truncate(image, from)) // tried again by the next start
	}
	return os.Truncate(image, to)
}

func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && len(entries) == 0
}

// throttle bounds what a server reads and writes in a second: the platform's own database may be on the
// disk below, and each of its commits would wait. Reads are mostly of what the machine has in memory.
func (o *ownServers) throttle(i *instance, group *cgroup.Group) {
	point, writes := o.dirOf(i), planOf(i).writes
	if !loopdisk.Mounted(point) {
		return
	}
	if err := group.LimitDisk(point, 5*writes, writes); err != nil {
		o.log.Warn("what a database server reads and writes in a second is not limited", "instance", i.ID, "reason", err)
	}
}

func unmountDisk(point string) error {
	if loopdisk.Mounted(point) {
		cgroup.UnlimitDisk(point)
	}
	return loopdisk.Unmount(point)
}

// removeFiles deletes all files of a server that has stopped.
func (o *ownServers) removeFiles(i *instance) error {
	point := o.dirOf(i)
	if err := unmountDisk(point); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(point+diskSuffix+newSuffix), os.RemoveAll(point+diskSuffix), os.RemoveAll(point))
}

// Release unmounts the disks of the servers of a directory, which have all stopped, and removes their
// groups.
func Release(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(dir, own))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, unmountDisk(filepath.Join(dir, own, e.Name())))
		}
	}
	if os.Geteuid() == 0 {
		errs = append(errs, cgroup.RemoveAll(Config{Dir: dir}.groupParent()))
	}
	return errors.Join(errs...)
}

// usedBytes returns how much of its disk an instance uses.
func (o *ownServers) usedBytes(i *instance) (n int64, err error) {
	dir := o.dirOf(i)
	if loopdisk.Mounted(dir) {
		return loopdisk.Used(dir)
	}
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // deleted meanwhile
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
		}
		return nil
	})
	return n, err
}

// fill creates the data directory of an instance as a copy of a template: creating it takes seconds.
func (o *ownServers) fill(ctx context.Context, i *instance, place ownPlace, data string) error {
	template, err := o.template(ctx, i.Offering)
	if err != nil {
		return err
	}
	return createAtomically(place.dir, data, func(fresh string) error {
		if err := copyTree(fresh, template, place.owner); err != nil {
			return err
		}
		return loopdisk.Sync(place.dir)
	})
}

// template returns the template of an offering.
func (o *ownServers) template(ctx context.Context, offering string) (string, error) {
	o.templating.Lock()
	defer o.templating.Unlock()
	kind := o.kinds[offering]
	owner, err := o.config.owner(kind.user())
	if err != nil {
		return "", err
	}
	dir := o.templateDir(offering)
	data := filepath.Join(dir, "data")
	if err := daemon.MakeDir(dir, owner); err != nil {
		return "", err
	}
	return data, createAtomically(dir, data, func(fresh string) error { return kind.template(ctx, owner, dir, fresh) })
}

func (o *ownServers) templateDir(offering string) string {
	return filepath.Join(o.dir, "template-"+offering+"-"+o.kinds[offering].edition())
}

// quick reports whether a new instance of the offering takes no time to speak of.
func (o *ownServers) quick(offering string) bool {
	_, err := os.Stat(filepath.Join(o.templateDir(offering), "data"))
	return err == nil
}

// copyTree copies a directory. The copy belongs to owner.
func copyTree(to, from string, owner *syscall.Credential) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case e.IsDir():
			err = os.Mkdir(target, info.Mode().Perm())
		case info.Mode().IsRegular():
			err = copyFile(target, path, info.Mode().Perm())
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", path)
		}
		if err == nil && owner != nil {
			err = os.Chown(target, int(owner.Uid), int(owner.Gid))
		}
		return err
	})
}

func copyFile(to, from string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
