package system

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"ingot/internal/base/backup"
	"ingot/internal/base/datadir"
	"ingot/internal/broker"
)

// dumpsDir contains the data of service instances in a backup.
const dumpsDir = "dumps"

// saveServices saves the data of the instances of the bundled broker.
func (a *archiving) saveServices(ctx context.Context) error {
	dir := filepath.Join(a.DataDir, servicesDir)
	if !a.hasDir || !exists(filepath.Join(dir, "broker")) {
		return nil
	}
	keys, err := datadir.ReadKeys(a.DataDir, a.EncryptionKey)
	if err != nil {
		return err
	}
	all, err := broker.Savable(broker.Config{Dir: dir, Keys: keys, PostgresURL: a.PostgresURL, MySQLURL: a.MySQLURL, Log: a.Log})
	if err != nil {
		return err
	}
	if a.SkipServices {
		if len(all) > 0 {
			a.Tell(fmt.Sprintf("The data of %d service instances is not in the backup (--skip-services)", len(all)))
		}
		return nil
	}
	for _, one := range all {
		if _, err := a.w.Stream(dumpsDir+"/"+one.Name, 0o600, func(w io.Writer) error { return one.Save(ctx, w) }); err != nil {
			return err
		}
	}
	a.services = len(all)
	return nil
}

// services creates the service instances on new servers in the data directory.
func (r *restoring) services(ctx context.Context, _ *backup.Manifest) error {
	defer func() { _ = r.root.RemoveAll(dumpsDir) }()
	dir := filepath.Join(r.stage, servicesDir)
	if records, _ := filepath.Glob(filepath.Join(dir, "broker", "instances", "*.json")); len(records) == 0 {
		return nil
	}
	if r.SkipServices {
		r.Tell("Service instances were not restored (--skip-services): apps that are bound to them cannot connect")
		return nil
	}
	// The servers run as users of their own, who have to get at their directories.
	if err := r.dir.Open(); err != nil {
		return err
	}
	keys, err := datadir.ReadKeys(r.stage, "")
	if err != nil {
		return err
	}
	done, err := broker.Restore(ctx, broker.Config{Dir: dir, Keys: keys, Log: r.Log}, func(name string) (io.ReadCloser, error) {
		return r.root.Open(dumpsDir + "/" + name)
	})
	if err != nil {
		return fmt.Errorf("services: %w; --skip-services restores everything else", err)
	}
	if done.Instances > 0 {
		r.Tell(fmt.Sprintf("Restored %d service instances", done.Instances))
	}
	for _, what := range done.Lost {
		r.Tell("Not restored: " + what)
	}
	return nil
}
