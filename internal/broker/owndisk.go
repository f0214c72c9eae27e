package broker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"ingot/internal/base/cgroup"
	"ingot/internal/base/daemon"
	"ingot/internal/base/loopdisk"
	"ingot/internal/broker/ownserver"
)

// diskBytes is the size of an instance's disk: its data, half as much again and 512 MiB for
// temporary files, transaction logs and indexes that are being built.
func diskBytes(i *instance) int64 { return planOf(i).bytes*3/2 + gib/2 }

// groupParent is the name of the group of all servers.
func (c Config) groupParent() string { return "ingot-" + hash(c.Dir)[:8] + "-services" }

// together are the limits of all servers: they share the processors as one program or service of the
// machine does, and leave one processor to the platform. Among them, all have the same share.
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
		c.Log.Warn("a server of a service has no control group: its memory, processes and processor time are not limited",
			"instance", i.ID, "reason", err)
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
		group, o.noGroups = cgroup.Make(o.config.groupParent(), together, "probe", plan{memory: gib, connections: 1,
			cores: 1}.limits())
		if o.noGroups == nil {
			if group.Lacks != nil {
				o.log.Warn("database servers may use all processors, so that they slow down the platform's own database",
					"reason", group.Lacks)
			}
			o.noGroups = group.Remove()
		}
		o.disks, why = ownserver.ProbeDisks(ctx, o.dir)
	}
	if o.noGroups != nil {
		o.log.Warn("the servers of databases have no control groups: their memory is limited for each process, their "+
			"processor time is not", "reason", o.noGroups)
	}
	if o.disks == nil {
		o.log.Warn("database servers have no separate disks: how much they write is watched, and limited with "+
			"a delay", "reason", why)
	}
}

// throttle bounds what a server reads and writes in a second: the platform's own database may be on the
// disk below, and each of its commits would wait. Reads are mostly of what the machine has in memory.
func (o *ownServers) throttle(i *instance, group *cgroup.Group) {
	point, writes := o.dirOf(i), planOf(i).writes
	if group == nil || !loopdisk.Mounted(point) {
		return
	}
	if err := group.LimitDisk(point, 5*writes, writes); err != nil {
		o.unthrottled.Do(func() {
			o.log.Warn("what database servers read and write in a second is not limited", "reason", err)
		})
	}
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
			errs = append(errs, ownserver.Detach(filepath.Join(dir, own, e.Name())))
		}
	}
	if os.Geteuid() == 0 {
		errs = append(errs, cgroup.RemoveAll(Config{Dir: dir}.groupParent()))
	}
	return errors.Join(errs...)
}

// fill creates the data directory of an instance as a copy of a template: creating it takes seconds.
func (o *ownServers) fill(ctx context.Context, i *instance, place ownPlace, data string) error {
	template, err := o.template(ctx, i.Offering)
	if err != nil {
		return err
	}
	return createAtomically(place.dir, data, func(fresh string) error {
		if err := ownserver.CopyTree(fresh, template, place.owner); err != nil {
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

// quick reports whether a new instance of the offering is created at once.
func (o *ownServers) quick(offering string) bool {
	_, err := os.Stat(filepath.Join(o.templateDir(offering), "data"))
	return err == nil
}
