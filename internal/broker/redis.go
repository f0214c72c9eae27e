package broker

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	"ingot/internal/base/background"
	"ingot/internal/base/cgroup"
	"ingot/internal/base/daemon"
	"ingot/internal/broker/forward"
)

// redisServers is the backend for Redis: one server per instance. Users of one
// server can be denied the values of others, but not a list of all key names, and
// the memory limit applies to a whole server.
type redisServers struct {
	dir     string
	program string
	owner   *syscall.Credential
	secret  secret
	reach   netip.Addr
	config  Config
	log     *slog.Logger

	mu      sync.Mutex
	running map[string]*redisServer // by instance id
	stopped bool
}

type redisServer struct {
	daemon *daemon.Daemon
	admin  *redis.Client
	group  *cgroup.Group // nil if there are no groups
}

// redisRights allow all commands except those of administrators and those that
// affect more than data. Redis calls some commands dangerous only because they
// are slow, which does no harm on a separate server.
const redisRights = "~* &* +@all -@admin -@dangerous +keys +sort +sort_ro +flushdb +flushall +info +role"

func (c Config) localRedis(s secret) (*redisServers, error) {
	program, err := daemon.Redis()
	if err != nil {
		return nil, err
	}
	owner, err := c.owner("redis")
	if err != nil {
		return nil, err
	}
	redis.SetLogger(quiet{}) // errors are returned as well
	return &redisServers{
		dir: filepath.Join(c.Dir, Redis), program: program, owner: owner, secret: s, reach: c.Reach.Host,
		config: c, log: c.Log,
		running: map[string]*redisServer{},
	}, nil
}

type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func (r *redisServers) name() string                { return local }
func (r *redisServers) start(context.Context) error { return os.MkdirAll(r.dir, 0o711) }

func (r *redisServers) stop(leave bool) {
	r.mu.Lock()
	r.stopped = true
	all := r.running
	r.running = map[string]*redisServer{}
	r.mu.Unlock()
	var wait background.WaitGroup
	for _, s := range all {
		wait.Go("broker stop", func() { s.stop(leave) })
	}
	wait.Wait()
}

func (s *redisServer) stop(leave bool) {
	s.admin.Close() //nolint:errcheck // no command is pending
	stopDaemon(s.daemon, leave)
	if s.group != nil && !leave {
		_ = s.group.Remove() // used again by the next start
	}
}

func (r *redisServers) target(i *instance) forward.Endpoint {
	return forward.Local(i.Port)
}

// redisReserved is the number of connections reserved for the administrator.
const redisReserved = 16

func (r *redisServers) capacity(i *instance) int { return planOf(i).connections }

func (r *redisServers) instanceDir(i *instance) string { return filepath.Join(r.dir, i.hash()) }

func (r *redisServers) up(i *instance) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.running[i.ID]
	return s != nil && s.daemon.Up()
}

// adminClient returns a client for the administrator of an instance's server.
func (r *redisServers) adminClient(i *instance) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: r.target(i).String(), Username: adminUser, Password: r.secret.password("admin", Redis, i.ID), MaxRetries: -1,
		DialerRetries: 1, PoolSize: 4,
		DisableIdentity: true,
	})
}

// server returns the instance's server. It starts to supervise it if necessary.
func (r *redisServers) server(ctx context.Context, i *instance) (*redisServer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil, background.ErrStopped
	}
	if s := r.running[i.ID]; s != nil {
		return s, nil
	}
	dir := r.instanceDir(i)
	data, users := filepath.Join(dir, "data"), filepath.Join(dir, "users")
	admin := r.adminClient(i)
	policy, plan := evictions[0], planOf(i)
	if o, ok := offeringNamed(Redis); ok {
		if p, err := readParameters(i.Params, o.create); err == nil && p.MaxmemoryPolicy != "" {
			policy = p.MaxmemoryPolicy
		}
	}
	s := &redisServer{admin: admin, group: r.config.group(i)}
	snapshot := i.clone()
	s.daemon = daemon.New(daemon.Spec{
		Name: "Redis " + i.hash(), Dir: dir, Owner: r.owner, Program: r.program, Data: data,
		PIDFile: filepath.Join(dir, "pid"),
		Args: []string{
			"--bind", forward.Loopback.String(), "--port", strconv.Itoa(i.Port), "--dir", data, "--pidfile",
			filepath.Join(dir, "pid"),
			"--daemonize", "no", "--set-proc-title", "no", "--aclfile", users, "--appendonly", "yes", "--save", "",
			"--maxmemory", strconv.FormatInt(plan.bytes, 10), "--maxmemory-policy", policy, "--maxclients",
			strconv.Itoa(plan.connections + redisReserved),
			"--enable-debug-command", "no", "--enable-module-command", "no",
		},
		Stop: syscall.SIGTERM, Group: s.group, Log: r.log,
		Prepare: func(context.Context) error {
			if err := daemon.MakeDir(data, r.owner); err != nil {
				return err
			}
			if _, err := os.Stat(users); err == nil {
				return nil // it has the current bindings
			}
			return r.writeUsers(snapshot)
		},
		Answers: func(ctx context.Context) error { return admin.Ping(ctx).Err() },
	})
	if err := s.daemon.Start(ctx); err != nil {
		return nil, err
	}
	r.running[i.ID] = s
	return s, nil
}

func (r *redisServers) wake(ctx context.Context, i *instance) error {
	if i.Port == 0 {
		return nil
	}
	s, err := r.server(ctx, i)
	if err == nil {
		s.daemon.Wake()
	}
	return err
}

func (r *redisServers) ensure(ctx context.Context, i *instance) error {
	if i.Port == 0 {
		return nil // creation has not begun
	}
	s, err := r.server(ctx, i)
	if err != nil {
		return err
	}
	return s.daemon.Ensure(ctx)
}

// create requires that the record has a port.
func (r *redisServers) create(ctx context.Context, i *instance, _ parameters) error {
	return r.ensure(ctx, i)
}

func (r *redisServers) drop(ctx context.Context, i *instance) error {
	r.mu.Lock()
	s := r.running[i.ID]
	delete(r.running, i.ID)
	r.mu.Unlock()
	if s != nil {
		s.stop(false)
	}
	dir := r.instanceDir(i)
	if err := daemon.StopLeftover(ctx, r.program, filepath.Join(dir, "data"), filepath.Join(dir, "pid"),
		syscall.SIGTERM); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// resize does nothing: there is only one plan, and Redis itself rejects writes
// beyond its memory.
func (r *redisServers) resize(context.Context, *instance) error { return nil }

func (r *redisServers) size(context.Context, *instance) (int64, error) { return 0, nil }

// writeUsers writes the server's ACL file.
func (r *redisServers) writeUsers(i *instance) error {
	lines := []string{
		"user default off nopass sanitize-payload resetchannels -@all",
		"user " + adminUser + " on #" + hashed(r.secret.password("admin", Redis, i.ID)) + " ~* &* +@all",
	}
	for _, b := range i.Bindings {
		if b.Phase != deleting {
			lines = append(lines, "user "+i.user(b)+" on #"+hashed(r.secret.password("binding", i.ID, b.ID, b.Nonce))+" "+
				redisRights)
		}
	}
	slices.Sort(lines)
	return daemon.WriteFile(filepath.Join(r.instanceDir(i), "users"), []byte(strings.Join(lines, "\n")+"\n"), r.owner)
}

// bind writes the file first: a server that is killed before it gets the command
// reads the file when it starts again.
func (r *redisServers) bind(ctx context.Context, i *instance, b *binding, password string) error {
	s, err := r.server(ctx, i)
	if err != nil {
		return err
	}
	if err := r.writeUsers(i); err != nil {
		return err
	}
	args := []any{"ACL", "SETUSER", i.user(b), "reset", "on", "#" + hashed(password)}
	for _, word := range strings.Fields(redisRights) {
		args = append(args, word)
	}
	return s.admin.Do(ctx, args...).Err()
}

func (r *redisServers) unbind(ctx context.Context, i *instance, b *binding) error {
	s, err := r.server(ctx, i)
	if err != nil {
		return err
	}
	if err := r.writeUsers(i); err != nil {
		return err
	}
	return s.admin.Do(ctx, "ACL", "DELUSER", i.user(b)).Err() // closes its connections too

}

func (r *redisServers) credentials(i *instance, b *binding, at forward.Endpoint, password string) map[string]any {
	user := i.user(b)
	uri := url.URL{Scheme: "redis", User: url.UserPassword(user, password), Host: at.String(), Path: "/0"}
	return credentials(at, "0", user, password, uri.String(), fmt.Sprintf("jdbc:redis://%s/0?%s", at,
		url.Values{"user": {user}, "password": {password}}.Encode()))
}
