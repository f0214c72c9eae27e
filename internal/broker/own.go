package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/cgroup"
	"ingot/internal/base/clock"
	"ingot/internal/base/daemon"
	"ingot/internal/base/rootless"
	"ingot/internal/broker/dump"
	"ingot/internal/broker/forward"
	"ingot/internal/broker/ownserver"
)

// own is the name of servers that belong to one instance each.
const own = "own"

// ownServers is the backend with a separate database server for each instance, because all
// users of a server share its lock and statement tables, its memory and its disk. A server
// starts with the first connection, and stops when it has had none for a while.
//
// Servers listen on a socket in their directory, never on a port. The forwarder has the
// port of the instance, and starts the server.
type ownServers struct {
	config Config
	secret secret
	dir    string // contains the directories of the servers, the images of their disks, and templates
	kinds  map[string]ownKind
	idle   time.Duration
	room   int64                   // memory for the limits of all servers that run
	disk   func(i *instance) int64 // the size of the disk
	log    *slog.Logger

	probed      sync.Once
	disks       *ownserver.Disks // nil if disks cannot be made
	noGroups    error            // why servers are in no group
	unthrottled sync.Once        // logs that disks have no limit
	templating  sync.Mutex

	mu      sync.Mutex
	running map[string]*ownServer // by instance id
	dropped map[string]bool       // instances whose server must not come back
	cut     map[string]time.Time  // when the server of an instance was stopped because of its disk
	stopped bool
	left    map[string]bool // directories in which servers ran at the start
}

// ownKind makes the servers of an offering.
type ownKind interface {
	// user is the name of the user that creates templates.
	user() string
	// template creates a data directory in fresh, which does not exist.
	template(ctx context.Context, owner *syscall.Credential, dir, fresh string) error
	// socket is the name of the socket in the directory of a server.
	socket() string
	// edition changes when a template of an earlier version of the program cannot be used.
	edition() string
	// database returns the access to a server of an instance.
	database(s ownPlace, i *instance) (ownDatabase, error)
}

// ownDatabase is an own server as a backend, with only one instance.
type ownDatabase interface {
	backend
	dumper
	// adminURL is the administrator's URL.
	adminURL() string
	// server returns the supervisor.
	server() *daemon.Daemon
	// clients returns the number of connections other than those of the administrator.
	clients(ctx context.Context) (int, error)
	// disconnect closes the connections of clients.
	disconnect(ctx context.Context) error
}

// ownPlace is what a server needs to know.
type ownPlace struct {
	dir    string
	owner  *syscall.Credential // nil for the current user
	group  *cgroup.Group       // nil if there are no groups
	secret secret
	log    *slog.Logger
	// dial connects the administrator.
	dial func(ctx context.Context) (net.Conn, error)
	// fill creates the data directory from a template.
	fill func(ctx context.Context, data string) error
}

// ownServer is a server that runs, starts or stops.
type ownServer struct {
	instance *instance
	opened   chan struct{} // closed when the following are set
	db       ownDatabase
	group    *cgroup.Group
	throttle sync.Once // of its disk
	err      error

	// Guarded by the lock of ownServers.
	users   int           // operations and connections
	since   time.Time     // steady time at which users became 0
	closing chan struct{} // not nil when it is being stopped, closed when that is done

	// Used by the watcher only.
	kills   int64 // processes that were killed because of the memory limit
	checked int64 // used bytes of its disk when its size was checked
	reserve bool  // it may use the reserve of its disk
}

func newOwnServers(c Config, s secret) *ownServers {
	return &ownServers{
		config: c, secret: s, dir: filepath.Join(c.Dir, own), kinds: map[string]ownKind{}, log: c.Log,
		idle: cmp.Or(c.Idle, ownIdle), room: cmp.Or(c.Room, ownserver.Room()), disk: c.disk,
		running: map[string]*ownServer{}, dropped: map[string]bool{}, cut: map[string]time.Time{},
	}
}

// ownIdle is how long a server runs without a connection.
const ownIdle = 10 * time.Minute

func (o *ownServers) name() string { return own }

// Users of servers: one for each port, which is in the record of the instance. The range is one
// that neither distributions nor container engines give to users.
const firstOwnUser = 1_900_000_000

func (o *ownServers) ownerOf(i *instance) *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	id := uint32(firstOwnUser + i.Port) //nolint:gosec // a port
	if s := rootless.Current(); s != nil {
		id = s.ForServer(i.Port)
	}
	return &syscall.Credential{Uid: id, Gid: id}
}

func (o *ownServers) dirOf(i *instance) string { return filepath.Join(o.dir, i.hash()) }

func (o *ownServers) target(i *instance) forward.Endpoint { return forward.Local(i.Port) }

// ownExtra is how many more connections are passed on to a server than its plan has: so that the
// server itself can tell a client that there are too many.
const ownExtra = 10

func (o *ownServers) capacity(i *instance) int { return planOf(i).connections + ownExtra }

func (o *ownServers) up(i *instance) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.running[i.ID]
	return s != nil && s.closing == nil && s.ready() && s.db.server().Up()
}

// ready reports whether the server was opened without an error.
func (s *ownServer) ready() bool {
	select {
	case <-s.opened:
		return s.err == nil
	default:
		return false
	}
}

var errDropped = errors.New("the service instance is being deleted")

// hold returns the server of an instance, which is not stopped before release. It starts to
// supervise it if necessary.
func (o *ownServers) hold(ctx context.Context, i *instance) (*ownServer, error) {
	for {
		o.mu.Lock()
		if o.stopped {
			o.mu.Unlock()
			return nil, background.ErrStopped
		}
		if o.dropped[i.ID] {
			o.mu.Unlock()
			return nil, errDropped
		}
		s := o.running[i.ID]
		if s == nil {
			other, err := o.makeRoom(i)
			if err != nil {
				o.mu.Unlock()
				return nil, err
			}
			if other == nil {
				s = &ownServer{instance: i.clone(), opened: make(chan struct{}), users: 1}
				o.running[i.ID] = s
				o.mu.Unlock()
				s.err = o.open(ctx, s)
				close(s.opened)
				if s.err != nil {
					o.closeOnce(s, false)
				}
				return s, s.err
			}
			s = other
			o.mu.Unlock()
			o.close(s, false)
			continue
		}
		wait := s.closing
		if wait == nil {
			s.users++
			wait = s.opened
		}
		mine := s.closing == nil
		o.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			if mine {
				o.release(s)
			}
			return nil, ctx.Err()
		}
		if mine && s.err != nil {
			o.release(s)
			return nil, s.err
		}
		if mine {
			return s, nil
		}
	}
}

func (o *ownServers) release(s *ownServer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.users--; s.users == 0 {
		s.since = clock.Steady()
	}
}

// makeRoom returns an idle server that has to be stopped before the instance's can be started, or
// an error if others use all memory. It is called with the lock.
func (o *ownServers) makeRoom(i *instance) (*ownServer, error) {
	used := planOf(i).memory
	var idle *ownServer
	for _, s := range o.running {
		used += planOf(s.instance).memory
		if s.users == 0 && s.closing == nil && (idle == nil || s.since.Before(idle.since)) {
			idle = s
		}
	}
	switch {
	case used <= o.room || len(o.running) == 0:
		return nil, nil
	case idle == nil:
		return nil, fmt.Errorf("%w: %d databases are in use, and together may take %s", errNoRoom, len(o.running),
			sizeText(o.room))
	}
	idle.closing = make(chan struct{})
	return idle, nil
}

var errNoRoom = errors.New("no memory is left for another database server")

// open mounts the disk of a server and starts its supervisor.
func (o *ownServers) open(ctx context.Context, s *ownServer) error {
	i := s.instance
	o.probed.Do(func() { o.probe(ctx) })
	place, err := o.place(ctx, i)
	if err != nil {
		return err
	}
	s.group = place.group
	if s.group != nil {
		s.kills = s.group.OOMKills()
	}
	if s.db, err = o.kinds[i.Offering].database(place, i); err != nil {
		return err
	}
	return s.db.start(context.WithoutCancel(ctx))
}

func (o *ownServers) place(ctx context.Context, i *instance) (ownPlace, error) {
	place := ownPlace{dir: o.dirOf(i), owner: o.ownerOf(i), secret: o.secret, log: o.log}
	place.dial = func(ctx context.Context) (net.Conn, error) { return o.dial(ctx, i) }
	place.fill = func(ctx context.Context, data string) error { return o.fill(ctx, i, place, data) }
	if err := daemon.MakeDir(place.dir, place.owner); err != nil {
		return place, err
	}
	if err := o.disks.Attach(ctx, place.dir, o.disk(i), o.log.With("instance", i.ID)); err != nil {
		return place, err
	}
	var err error
	if o.noGroups == nil {
		place.group, err = cgroup.Make(o.config.groupParent(), together, i.hash(), planOf(i).limits())
	}
	return place, err
}

// close stops a server whose field closing was just set, or leaves it running for another process. The
// server is gone from the list afterwards.
func (o *ownServers) close(s *ownServer, leave bool) {
	<-s.opened
	if s.db != nil {
		s.db.stop(leave)
	}
	if !leave {
		if err := o.detach(s.instance, s.group); err != nil {
			o.log.Warn("clean up after a database server failed", "instance", s.instance.ID, "error", err)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.running, s.instance.ID)
	close(s.closing)
}

// detach unmounts the disk of a server that has stopped, and removes its group.
func (o *ownServers) detach(i *instance, group *cgroup.Group) error {
	var err error
	if group != nil {
		err = group.Remove()
	}
	return errors.Join(err, ownserver.Detach(o.dirOf(i)))
}

// with calls f with the server of an instance, which answers.
func (o *ownServers) with(ctx context.Context, i *instance, f func(ownDatabase) error) error {
	s, err := o.hold(ctx, i)
	if err != nil {
		return err
	}
	defer o.release(s)
	if err := s.db.server().Ensure(ctx); err != nil {
		return err
	}
	return f(s.db)
}

// connect connects a client to the server of an instance. The server runs at least until done
// is called.
func (o *ownServers) connect(ctx context.Context, i *instance) (c net.Conn, done func(), err error) {
	s, err := o.hold(ctx, i)
	if err != nil {
		return nil, nil, err
	}
	if err = o.full(i); err == nil {
		err = s.db.server().Ensure(ctx)
	}
	if err == nil {
		// Before the first connection of an app, and no earlier: creating a database writes much.
		s.throttle.Do(func() { o.throttle(i, s.group) })
		c, err = o.dial(ctx, i)
	}
	if err != nil {
		o.release(s)
		return nil, nil, err
	}
	return c, func() { o.release(s) }, nil
}

// dial connects to the socket of a server. A socket's path has at most 107 bytes, so dial
// uses the path of an open directory.
func (o *ownServers) dial(ctx context.Context, i *instance) (net.Conn, error) {
	dir, err := os.Open(o.dirOf(i))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	path := filepath.Join(dir.Name(), o.kinds[i.Offering].socket())
	if _, err := os.Stat("/proc/self/fd"); err == nil {
		path = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), o.kinds[i.Offering].socket())
	}
	return (&net.Dialer{Timeout: forward.DialTime}).DialContext(ctx, "unix", path)
}

// start finds the servers that an earlier process has left running, and unmounts the disks of others.
func (o *ownServers) start(context.Context) error {
	if err := os.MkdirAll(o.dir, 0o711); err != nil {
		return err
	}
	left, err := o.leftRunning()
	if err != nil {
		return err
	}
	o.mu.Lock()
	o.left = left
	o.mu.Unlock()
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() && !left[e.Name()] {
			if err := ownserver.Detach(filepath.Join(o.dir, e.Name())); err != nil {
				o.log.Warn("unmount the disk of a database failed", "error", err)
			}
		}
	}
	return nil
}

// leftRunning returns the names of the directories in which a server runs.
func (o *ownServers) leftRunning() (map[string]bool, error) {
	all, err := daemon.Below(o.dir)
	left := map[string]bool{}
	for _, args := range all {
		for _, a := range args {
			if _, below, ok := strings.Cut(a, o.dir+string(filepath.Separator)); ok {
				name, _, _ := strings.Cut(below, string(filepath.Separator))
				left[name] = true
			}
		}
	}
	return left, err
}

func (o *ownServers) stop(leave bool) {
	o.mu.Lock()
	o.stopped = true
	var all []*ownServer
	for _, s := range o.running {
		all = append(all, s)
	}
	o.mu.Unlock()
	var wait background.WaitGroup
	for _, s := range all {
		wait.Go("broker stop", func() { o.closeOnce(s, leave) })
	}
	wait.Wait()
}

// closeOnce is like close, and waits if the server is being stopped already.
func (o *ownServers) closeOnce(s *ownServer, leave bool) {
	o.mu.Lock()
	busy := s.closing
	if busy == nil {
		s.closing = make(chan struct{})
	}
	o.mu.Unlock()
	if busy != nil {
		<-busy
		return
	}
	o.close(s, leave)
}

// wake continues to supervise a server that is running. Others start with the first connection.
func (o *ownServers) wake(ctx context.Context, i *instance) error {
	o.mu.Lock()
	left := o.left[i.hash()]
	o.mu.Unlock()
	if !left {
		return nil
	}
	s, err := o.hold(ctx, i)
	if err != nil {
		return err
	}
	defer o.release(s)
	s.db.server().Wake()
	return nil
}

func (o *ownServers) ensure(ctx context.Context, i *instance) error {
	if i.Phase == creating { // again, after one with this id was deleted or could not be created
		o.mu.Lock()
		delete(o.dropped, i.ID)
		o.mu.Unlock()
	}
	return o.with(ctx, i, func(ownDatabase) error { return nil })
}

func (o *ownServers) create(ctx context.Context, i *instance, p parameters) error {
	return o.with(ctx, i, func(db ownDatabase) error { return db.create(ctx, i, p) })
}

func (o *ownServers) drop(ctx context.Context, i *instance) error {
	o.mu.Lock()
	o.dropped[i.ID] = true
	delete(o.cut, i.ID)
	s := o.running[i.ID]
	o.mu.Unlock()
	if s != nil {
		o.closeOnce(s, false)
	}
	all, err := daemon.Below(o.dirOf(i))
	if err != nil {
		return err
	}
	if len(all) > 0 {
		if _, err := daemon.StopBelow(ctx, o.dirOf(i)); err != nil {
			return err
		}
	}
	return ownserver.Remove(o.dirOf(i))
}

func (o *ownServers) size(ctx context.Context, i *instance) (n int64, err error) {
	err = o.with(ctx, i, func(db ownDatabase) error {
		n, err = db.size(ctx, i)
		return err
	})
	return n, err
}

func (o *ownServers) bind(ctx context.Context, i *instance, b *binding, password string) error {
	return o.with(ctx, i, func(db ownDatabase) error { return db.bind(ctx, i, b, password) })
}

func (o *ownServers) unbind(ctx context.Context, i *instance, b *binding) error {
	return o.with(ctx, i, func(db ownDatabase) error { return db.unbind(ctx, i, b) })
}

// resize restarts the server if its plan has changed.
func (o *ownServers) resize(ctx context.Context, i *instance) error {
	o.mu.Lock()
	s := o.running[i.ID]
	changed := s != nil && s.instance.PlanID != i.PlanID
	o.mu.Unlock()
	if changed {
		o.closeOnce(s, false)
	}
	return o.with(ctx, i, func(db ownDatabase) error { return db.resize(ctx, i) })
}

// remote returns access to a server through its instance's port, as a client. The server can
// belong to another process.
func (o *ownServers) remote(i *instance) (ownDatabase, error) {
	return o.kinds[i.Offering].database(ownPlace{
		dir: o.dirOf(i), owner: o.ownerOf(i), secret: o.secret, log: o.log,
		dial: func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", o.target(i).String())
		},
	}, i)
}

func (o *ownServers) credentials(i *instance, b *binding, at forward.Endpoint, password string) map[string]any {
	db, err := o.remote(i)
	if err != nil {
		o.log.Error("credentials of a service", "instance", i.ID, "error", err)
		return nil
	}
	return db.credentials(i, b, at, password)
}

func (o *ownServers) dump(ctx context.Context, i *instance, w io.Writer) (dump.Lost, error) {
	db, err := o.remote(i)
	if err != nil {
		return dump.Lost{}, err
	}
	return db.dump(ctx, i, w)
}

func (o *ownServers) before(*instance, io.Reader) error { return nil }

func (o *ownServers) after(ctx context.Context, i *instance, open opener, limit time.Duration) (missing dump.Lost,
	err error) {
	err = o.with(ctx, i, func(db ownDatabase) error {
		missing, err = db.after(ctx, i, open, limit)
		return err
	})
	return missing, err
}
