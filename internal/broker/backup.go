package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/daemon"
	"ingot/internal/broker/dump"
)

// dumper saves and loads the data of instances, on servers that Ingot runs.
type dumper interface {
	// dump writes the data of an instance, whose server is running. It returns what could not
	// be saved because the tenant broke it.
	dump(ctx context.Context, i *instance, w io.Writer) (dump.Lost, error)
	// before gets the data of an instance before its server is started, after gets it when
	// the instance and its bindings were created. The data is a tenant's: after loads it with
	// the rights of the instance's owner, never with those of the administrator. It returns
	// what could not be loaded. A tenant's function may not end: what is not loaded within
	// limit is lost.
	before(i *instance, r io.Reader) error
	after(ctx context.Context, i *instance, open opener, limit time.Duration) (dump.Lost, error)
}

// opener opens the data of an instance in a backup. It can be called again.
type opener func() (io.ReadCloser, error)

// Restored is the result of a restore.
type Restored struct {
	// Instances is the number of service instances that were created.
	Instances int
	// Lost tells the operator what could not be restored, and why: data that was not saved,
	// and tenants' objects that need more rights than the tenants have.
	Lost []string
}

// Restore creates the instances of the records in c.Dir with their bindings on new
// servers, fills them, and stops the servers. Open returns the data of an instance by its
// name in the backup, and fs.ErrNotExist if it was not saved: that instance is empty. So is
// one whose data is incomplete, which the file with FailedSuffix says.
func Restore(ctx context.Context, c Config, open func(name string) (io.ReadCloser, error)) (done Restored, err error) {
	b, err := New(c)
	if err != nil {
		return done, err
	}
	defer b.stopServers(false)
	defer b.forward.Stop()
	for _, list := range b.backends {
		for _, s := range list {
			if err := s.start(ctx); err != nil {
				return done, err
			}
		}
	}
	for _, i := range b.state.list() {
		if i.Phase != ready || !i.isOurs() || i.Offering == Notifications {
			continue
		}
		why, failed, err := whyFailed(open, dumpName(i))
		if failed {
			done.Lost = append(done.Lost, fmt.Sprintf("the data of the %s instance %s: it was not saved: %s",
				i.Offering, i.ID, why))
		}
		var missing dump.Lost
		if err == nil {
			missing, err = b.restore(ctx, i, cmp.Or(c.Load, maxLoad), func() (io.ReadCloser, error) {
				if failed {
					return nil, fs.ErrNotExist
				}
				return open(dumpName(i))
			})
		}
		if err != nil {
			return done, fmt.Errorf("restore the %s instance %s: %w", i.Offering, i.ID, err)
		}
		for _, what := range missing.List() {
			done.Lost = append(done.Lost, fmt.Sprintf("%s instance %s: %s", i.Offering, i.ID, what))
		}
		done.Instances++
	}
	return done, nil
}

// maxLoad is how long loading the data of an instance may take: much longer than the largest plan
// needs.
const maxLoad = time.Hour

// tooSlow is why data is lost that was not loaded in time.
func tooSlow(limit time.Duration) string {
	return fmt.Sprintf("loading took longer than %s: does a function of the database not end?", limit)
}

func (b *Broker) restore(ctx context.Context, i *instance, limit time.Duration, open opener) (missing dump.Lost,
	err error) {
	s, err := b.backendOf(i)
	if err != nil {
		return missing, err
	}
	d, saved := s.(dumper)
	if saved {
		if saved, err = before(d, i, open); err != nil {
			return missing, err
		}
	}
	o, _ := offeringNamed(i.Offering)
	params, err := readParameters(i.Params, o.create)
	if err == nil {
		err = s.ensure(ctx, i)
	}
	if err == nil {
		err = s.create(ctx, i, params)
	}
	if err == nil && i.On == own { // programs connect as clients do
		err = b.openListener(ctx, s, i)
	}
	for _, to := range i.Bindings {
		if err == nil && to.Phase == ready {
			err = s.bind(ctx, i, to, b.password(i, to))
		}
	}
	if err != nil || !saved {
		return missing, err
	}
	return d.after(ctx, i, open, limit)
}

// before reports whether the data of the instance was saved, and passes it to d.
func before(d dumper, i *instance, open opener) (saved bool, err error) {
	r, err := open()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer r.Close()
	return true, d.before(i, r)
}

var _, _, _, _ dumper = (*postgres)(nil), (*mariadb)(nil), (*redisServers)(nil), (*ownServers)(nil)

const (
	redisSnapshot = "dump.rdb"
	redisPoll     = 50 * time.Millisecond
)

// dump makes the server write a snapshot to its data directory, and copies it.
func (r *redisServers) dump(ctx context.Context, i *instance, w io.Writer) (dump.Lost, error) {
	if err := r.snapshot(ctx, i); err != nil {
		return dump.Lost{}, err
	}
	path := filepath.Join(r.instanceDir(i), "data", redisSnapshot)
	f, err := os.Open(path)
	if err != nil {
		return dump.Lost{}, err
	}
	defer f.Close()
	if err := os.Remove(path); err != nil { // it is open
		return dump.Lost{}, err
	}
	_, err = io.Copy(w, f)
	return dump.Lost{}, err
}

// snapshot makes the server write a snapshot and waits for it.
func (r *redisServers) snapshot(ctx context.Context, i *instance) error {
	admin := r.adminClient(i)
	defer admin.Close()
	started := false
	for {
		if !started {
			err := admin.BgSave(ctx).Err()
			started = err == nil
			if err != nil && !strings.Contains(err.Error(), "progress") {
				return err
			}
		}
		info, err := admin.Info(ctx, "persistence").Result()
		if err != nil {
			return err
		}
		if started && strings.Contains(info, "rdb_bgsave_in_progress:0") {
			if !strings.Contains(info, "rdb_last_bgsave_status:ok") {
				return errors.New("the server could not write a snapshot; its log says why")
			}
			return nil
		}
		if !background.Sleep(ctx, redisPoll) {
			return ctx.Err()
		}
	}
}

// before puts the snapshot where the server expects its log, whose first part may be one.
func (r *redisServers) before(i *instance, from io.Reader) error {
	const base = "appendonly.aof.1.base.rdb"
	log := filepath.Join(r.instanceDir(i), "data", "appendonlydir")
	for _, dir := range []string{r.instanceDir(i), filepath.Dir(log), log} { // start made their parent
		if err := daemon.MakeDir(dir, r.owner); err != nil {
			return err
		}
	}
	content, err := os.OpenFile(filepath.Join(log, base), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(content, from)
	if err == nil && r.owner != nil {
		err = content.Chown(int(r.owner.Uid), int(r.owner.Gid))
	}
	if err == nil {
		err = content.Sync()
	}
	if err := errors.Join(err, content.Close()); err != nil {
		return err
	}
	return daemon.WriteFile(filepath.Join(log, "appendonly.aof.manifest"), []byte("file "+base+" seq 1 type b\n"), r.owner)
}

func (r *redisServers) after(context.Context, *instance, opener, time.Duration) (dump.Lost, error) {
	return dump.Lost{}, nil
}
