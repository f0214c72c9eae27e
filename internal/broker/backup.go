package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/daemon"
)

// dumper saves and loads the data of instances, on servers that Ingot runs.
type dumper interface {
	// dump writes the data of an instance, whose server is running.
	dump(ctx context.Context, i *instance, w io.Writer) error
	// before gets the data of an instance before its server is started, after gets it when
	// the instance and its bindings were created.
	before(i *instance, r io.Reader) error
	after(ctx context.Context, i *instance, r io.Reader) error
}

// Saved is a service instance whose data can be saved while its server is used.
type Saved struct {
	// Name is a file name that identifies the instance.
	Name string
	// ID is its id on the platform, Offering its service.
	ID, Offering string
	Save         func(ctx context.Context, w io.Writer) error
}

// dumpName is the name of an instance's data in a backup.
func dumpName(i *instance) string { return i.Offering + "/" + i.hash() + ".dump" }

// Savable returns the instances on servers that Ingot runs. The broker of the same
// directory may be running.
func Savable(c Config) ([]Saved, error) {
	c.ReadOnly = true
	b, err := New(c)
	if err != nil {
		return nil, err
	}
	var all []Saved
	for _, i := range b.state.list() {
		if i.Phase != ready || i.On != local || i.Offering == Notifications {
			continue
		}
		s, err := b.backendOf(i)
		if err != nil {
			return nil, err
		}
		if d, ok := s.(dumper); ok {
			all = append(all, Saved{dumpName(i), i.ID, i.Offering, func(ctx context.Context, w io.Writer) error {
				if err := d.dump(ctx, i, w); err != nil {
					return fmt.Errorf("save the data of the %s instance %s, is its server running? %w", i.Offering, i.ID, err)
				}
				return nil
			}})
		}
	}
	return all, nil
}

// Restore creates the instances of the records in c.Dir with their bindings on new
// servers, fills them, and stops the servers. Open returns the data of an instance by its
// name in the backup, and fs.ErrNotExist if it was not saved: that instance is empty.
func Restore(ctx context.Context, c Config, open func(name string) (io.ReadCloser, error)) (restored int, err error) {
	b, err := New(c)
	if err != nil {
		return 0, err
	}
	defer b.stopServers(false)
	for _, list := range b.backends {
		for _, s := range list {
			if err := s.start(ctx); err != nil {
				return 0, err
			}
		}
	}
	for _, i := range b.state.list() {
		if i.Phase != ready || i.On != local || i.Offering == Notifications {
			continue
		}
		if err := b.restore(ctx, i, open); err != nil {
			return restored, fmt.Errorf("restore the %s instance %s: %w", i.Offering, i.ID, err)
		}
		restored++
	}
	return restored, nil
}

func (b *Broker) restore(ctx context.Context, i *instance, open func(string) (io.ReadCloser, error)) error {
	s, err := b.backendOf(i)
	if err != nil {
		return err
	}
	load := func(f func(d dumper, r io.Reader) error) error {
		d, ok := s.(dumper)
		if !ok {
			return nil
		}
		r, err := open(dumpName(i))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer r.Close()
		return f(d, r)
	}
	if err := load(func(d dumper, r io.Reader) error { return d.before(i, r) }); err != nil {
		return err
	}
	o, _ := offeringNamed(i.Offering)
	params, err := readParameters(i.Params, o.create)
	if err == nil {
		err = s.ensure(ctx, i)
	}
	if err == nil {
		err = s.create(ctx, i, params)
	}
	for _, to := range i.Bindings {
		if err == nil && to.Phase == ready {
			err = s.bind(ctx, i, to, b.password(i, to))
		}
	}
	if err != nil {
		return err
	}
	return load(func(d dumper, r io.Reader) error { return d.after(ctx, i, r) })
}

// errors of a program are cut to this.
const maxProgramError = 2000

// pipe runs a program, with its standard input and output; nil means none.
func pipe(cmd *exec.Cmd, in io.Reader, out io.Writer) error {
	var said tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(said)))
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	if extra := len(*t) - maxProgramError; extra > 0 {
		*t = append((*t)[:0], (*t)[extra:]...)
	}
	return len(p), nil
}

var _, _, _ dumper = (*postgres)(nil), (*mariadb)(nil), (*redisServers)(nil)

// client returns one of PostgreSQL's programs, for an instance's database.
func (p *postgres) client(ctx context.Context, i *instance, program string, args ...string) *exec.Cmd {
	env := []string{"PGPASSWORD=" + p.config.Password, "PGCONNECT_TIMEOUT=10", "PGSSLMODE=disable", "PGOPTIONS=-c default_transaction_read_only=off"}
	args = append([]string{"-h", p.at.host, "-p", strconv.Itoa(p.at.port), "-U", p.config.User, "-d", i.database()}, args...)
	return daemon.Command(ctx, nil, "/", env, filepath.Join(p.bin, program), args...)
}

func (p *postgres) dump(ctx context.Context, i *instance, w io.Writer) error {
	return pipe(p.client(ctx, i, "pg_dump", "--format=custom"), nil, w)
}

func (p *postgres) before(*instance, io.Reader) error { return nil }

func (p *postgres) after(ctx context.Context, i *instance, r io.Reader) error {
	return pipe(p.client(ctx, i, "pg_restore", "--exit-on-error", "--single-transaction"), r, nil)
}

// client returns one of MariaDB's programs. The password is in a variable, because
// anyone can read the arguments.
func (m *mariadb) client(ctx context.Context, i *instance, name string, args ...string) (*exec.Cmd, error) {
	program, err := daemon.Program(name)
	if err != nil {
		return nil, err
	}
	args = append([]string{"--no-defaults", "--protocol=tcp", "--host=" + m.at.host, "--port=" + strconv.Itoa(m.at.port), "--user=" + adminUser, "--default-character-set=utf8mb4"}, args...)
	return daemon.Command(ctx, nil, "/", []string{"MYSQL_PWD=" + m.password}, program, append(args, i.database())...), nil
}

func (m *mariadb) dump(ctx context.Context, i *instance, w io.Writer) error {
	cmd, err := m.client(ctx, i, "mariadb-dump", "--single-transaction", "--routines", "--triggers", "--events", "--hex-blob", "--skip-lock-tables")
	if err != nil {
		return err
	}
	return pipe(cmd, nil, w)
}

func (m *mariadb) before(*instance, io.Reader) error { return nil }

func (m *mariadb) after(ctx context.Context, i *instance, r io.Reader) error {
	cmd, err := m.client(ctx, i, "mariadb")
	if err != nil {
		return err
	}
	return pipe(cmd, r, nil)
}

const (
	redisSnapshot = "dump.rdb"
	redisPoll     = 50 * time.Millisecond
)

// dump makes the server write a snapshot to its data directory, and copies it.
func (r *redisServers) dump(ctx context.Context, i *instance, w io.Writer) error {
	admin := r.adminClient(i)
	defer admin.Close()
	tick := time.NewTicker(redisPoll)
	defer tick.Stop()
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
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	path := filepath.Join(r.instanceDir(i), "data", redisSnapshot)
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Remove(path); err != nil { // it is open
		return err
	}
	_, err = io.Copy(w, f)
	return err
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

func (r *redisServers) after(context.Context, *instance, io.Reader) error { return nil }
