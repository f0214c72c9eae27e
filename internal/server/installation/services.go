package installation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"ingot/internal/base/datadir"
	"ingot/internal/server/backup"
	"ingot/internal/server/databases"
)

// dumpsDir contains the data of service instances in a backup.
const dumpsDir = "dumps"

// saveServices saves the data of the instances of the bundled broker.
func (a *archiving) saveServices(ctx context.Context) error {
	dir := filepath.Join(a.DataDir, a.Services.Dir)
	if !a.hasDir || !databases.FileExists(filepath.Join(dir, "broker")) {
		return nil
	}
	keys, err := datadir.ReadKeys(a.DataDir, a.EncryptionKey)
	if err != nil {
		return err
	}
	all, err := a.Services.Savable(ServicesConfig{Dir: dir, Keys: keys, PostgresURL: a.PostgresURL, MySQLURL: a.MySQLURL,
		Log: a.Log})
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
		if err := a.saveService(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// saveService saves the data of an instance. If that fails, what was read of it is in the
// archive with a file that says so: a tenant can cause that, and must not prevent the
// backup of all others.
func (a *archiving) saveService(ctx context.Context, one Service) error {
	var unsaved *UnsavedError
	_, err := a.w.Stream(dumpsDir+"/"+one.Name, 0o600, func(w io.Writer) error {
		missing, err := one.Save(ctx, w)
		for _, what := range missing {
			a.Tell("Not saved: " + what)
		}
		if errors.As(err, &unsaved) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	if unsaved == nil {
		a.savedServices++
		return nil
	}
	a.Tell("Not saved: " + unsaved.Error())
	if a.unsaved++; a.firstUnsaved == nil {
		a.firstUnsaved = unsaved
	}
	_, err = a.w.File(dumpsDir+"/"+one.Name+a.Services.FailedSuffix, 0o600, int64(len(unsaved.Why)),
		strings.NewReader(unsaved.Why))
	return err
}

// incomplete returns an error if the data of service instances is not in the backup.
func (a *archiving) incomplete() error {
	if a.unsaved == 0 {
		return nil
	}
	if a.Keep > 0 {
		a.Tell("No older backups were removed, because this one is not complete (--keep)")
	}
	return fmt.Errorf("the backup was written, but the data of %d service instances is not in it: %w; --skip-services "+
		"leaves out the data of all", a.unsaved, a.firstUnsaved)
}

// UnsavedServices returns the number of service instances whose data could not be saved.
func (p Parts) UnsavedServices(m *backup.Manifest) (n int) {
	for _, f := range m.Files {
		if strings.HasPrefix(f.Name, dumpsDir+"/") && strings.HasSuffix(f.Name, p.Services.FailedSuffix) {
			n++
		}
	}
	return n
}

// restoreServices creates the service instances on new servers in the data directory.
func (r *restoring) restoreServices(ctx context.Context) error {
	defer func() { _ = r.root.RemoveAll(dumpsDir) }()
	dir := filepath.Join(r.stage, r.Services.Dir)
	if records, _ := filepath.Glob(filepath.Join(dir, "broker", "instances", "*.json")); len(records) == 0 {
		return nil
	}
	if r.SkipServices {
		r.Tell("Service instances were not restored (--skip-services): apps that are bound to them cannot connect")
		return nil
	}
	// The servers run as other users, which must be able to open their directories.
	if err := r.dir.Open(); err != nil {
		return err
	}
	keys, err := datadir.ReadKeys(r.stage, "")
	if err != nil {
		return err
	}
	done, err := r.Services.Restore(ctx, ServicesConfig{Dir: dir, Keys: keys, Log: r.Log},
		func(name string) (io.ReadCloser, error) {
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
