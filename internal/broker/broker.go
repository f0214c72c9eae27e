package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/daemon"
	"ingot/internal/base/safedial"
	"ingot/internal/base/seal"
	"ingot/internal/broker/forward"
)

// Config configures a broker.
type Config struct {
	// Dir contains the servers' data and the broker's records. If Ingot runs as
	// root, servers run as other users, which must be able to enter the parent
	// directories (o+x).
	Dir string
	// Keys encrypt the secret that passwords are derived from.
	Keys *seal.Keyring
	// Listen is the address of the broker's API; 127.0.0.1:0 if empty.
	Listen string
	// PostgresURL and MySQLURL are external servers to use instead of starting
	// one, with a user that may create databases and users.
	PostgresURL, MySQLURL string
	// Notifications is the notification service; nil means that it is not
	// offered.
	Notifications *NotificationService
	// Without lists offerings that are disabled.
	Without []string
	// ReadOnly means that another broker may be using Dir: New changes nothing there, and
	// Start must not be called.
	ReadOnly bool
	// Reach is how apps connect to the servers; the zero value is for apps that
	// share this machine's loopback.
	Reach Reach
	// Stall is how long the dump of an instance may write nothing before it is given up;
	// 10 minutes if zero.
	Stall time.Duration
	// Idle is how long the server of an instance runs without a connection; 10 minutes if zero.
	Idle time.Duration
	// Room is the sum of the memory limits that running servers may have; 0 means twice the
	// machine's memory.
	Room int64
	// Load is how long loading the data of an instance may take before the rest is given up; 0
	// means an hour.
	Load time.Duration
	Log  *slog.Logger

	// limit is the maximum size of an instance's data, disk its disk's size; tests set smaller ones.
	limit, disk func(*instance) int64
}

// Reach is how apps in containers connect to servers on this machine.
type Reach = forward.Reach

// Username is the platform's user name at the broker.
const Username = "ingot"

// Timing.
const (
	operationTime = 2 * time.Minute // of one operation, the start of a server included
	// createTime is operationTime for what no request waits for: the first start of a server creates its files, which
	// takes minutes on a busy machine.
	createTime    = daemon.StartTime
	sizeInterval  = time.Minute
	retryInterval = 5 * time.Second
	shutdownTime  = 10 * time.Second
)

// Broker is the bundled service broker, a background.Service.
type Broker struct {
	background.Part
	config   Config
	secret   secret
	state    *state
	backends map[string][]backend // by offering; new instances go to the first
	missing  map[string]error     // why an offering has no server
	own      *ownServers
	forward  *forward.Forwarder
	guard    apiGuard

	listener net.Listener
	work     context.Context
	spawn    func(func())
	closed   chan struct{} // closed when the last request has finished
}

// New reads the records and finds the installed servers. It starts nothing.
func New(c Config) (*Broker, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.limit == nil {
		c.limit = func(i *instance) int64 { return planOf(i).bytes }
	}
	if c.disk == nil {
		c.disk = diskBytes
	}
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:0")
	if c.Keys == nil {
		return nil, errors.New("service broker: no keys to seal its secret with")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("service broker: %w", err)
	}
	c.Dir = dir
	own := filepath.Join(c.Dir, "broker")
	// Servers must be able to enter the first; only the broker reads the second.
	if err := errors.Join(os.MkdirAll(c.Dir, 0o711), os.MkdirAll(own, 0o700)); err != nil {
		return nil, fmt.Errorf("service broker: %w", err)
	}
	b := &Broker{config: c, backends: map[string][]backend{}, missing: map[string]error{}}
	if b.secret, err = loadSecret(filepath.Join(own, "secret"), c.Keys, c.ReadOnly); err != nil {
		return nil, fmt.Errorf("service broker: %w", err)
	}
	if b.state, err = openState(filepath.Join(own, "instances"), c.ReadOnly); err != nil {
		return nil, fmt.Errorf("service broker: %w", err)
	}
	b.guard = apiGuard{user: Username, password: b.secret.password("api"), turn: make(chan struct{}, 1)}
	b.forward = forward.New(c.Reach, safedial.Own, c.Log)
	if err := b.findServers(); err != nil {
		return nil, fmt.Errorf("service broker: %w", err)
	}
	return b, nil
}

// findServers decides which servers to use. If a URL is given, servers that
// Ingot runs itself are still used for the instances they have.
func (b *Broker) findServers() error {
	used := map[string]bool{} // offering and server
	for _, i := range b.state.list() {
		used[i.Offering+" "+i.On] = true
	}
	add := func(offering, address string, external func() (backend, error),
		ours map[string]func() (backend, error)) error {
		if slices.Contains(b.config.Without, offering) && !used[offering+" "+local] && !used[offering+" "+own] {
			b.missing[offering] = errors.New("disabled by configuration")
			return nil
		}
		if address != "" {
			e, err := external()
			if err != nil {
				return err
			}
			b.backends[offering] = append(b.backends[offering], e)
		}
		for n, server := range []string{own, local} {
			make, ok := ours[server]
			isNew := address == "" && (n == 0 || len(ours) == 1)
			if !ok || !isNew && !used[offering+" "+server] {
				continue
			}
			l, err := make()
			switch {
			case err == nil:
				b.backends[offering] = append(b.backends[offering], l)
			case errors.Is(err, daemon.ErrNoPostgres), errors.Is(err, daemon.ErrNoMariaDB), errors.Is(err, daemon.ErrNoRedis),
				errors.Is(err, daemon.ErrClosed):
				b.missing[offering] = err
			default:
				return err
			}
		}
		return nil
	}
	c, s := b.config, b.secret
	switch {
	case slices.Contains(c.Without, Notifications):
		b.missing[Notifications] = errors.New("disabled by configuration")
	case c.Notifications == nil:
		b.missing[Notifications] = errNoClients
	default:
		b.backends[Notifications] = []backend{&notifications{NotificationService: *c.Notifications, secret: s}}
	}
	return errors.Join(
		add(Postgres, c.PostgresURL, as(func() (*postgres, error) { return externalPostgres(c.PostgresURL) }),
			map[string]func() (backend, error){
				own: as(func() (*ownServers, error) {
					return b.addOwn(Postgres, func() (ownKind, error) { return newOwnPostgres(s) })
				}),
				local: as(func() (*postgres, error) { return c.localPostgres(s) }),
			}),
		add(MySQL, c.MySQLURL, as(func() (*mariadb, error) { return externalMySQL(c.MySQLURL) }),
			map[string]func() (backend, error){
				own:   as(func() (*ownServers, error) { return b.addOwn(MySQL, func() (ownKind, error) { return newOwnMySQL() }) }),
				local: as(func() (*mariadb, error) { return c.localMySQL(s) }),
			}),
		add(Redis, "", nil, map[string]func() (backend,
			error){local: as(func() (*redisServers, error) { return c.localRedis(s) })}),
	)
}

// addOwn adds a kind of server of which each instance gets one.
func (b *Broker) addOwn(offering string, find func() (ownKind, error)) (*ownServers, error) {
	kind, err := find()
	if err != nil {
		return nil, err
	}
	if _, err := b.config.owner(kind.user()); err != nil {
		return nil, err
	}
	if b.own == nil {
		b.own = newOwnServers(b.config, b.secret)
	}
	b.own.kinds[offering] = kind
	return b.own, nil
}

// as converts a constructor of one kind of backend to one of any kind.
func as[T backend](f func() (T, error)) func() (backend, error) {
	return func() (backend, error) { return f() }
}

// Missing returns the offerings that are not available, and why.
func (b *Broker) Missing() map[string]error { return b.missing }

// URL returns the URL of the API, after Start. It may change with every start.
func (b *Broker) URL() string { return "http://" + b.listener.Addr().String() }

// Password returns the password of Username. It never changes.
func (b *Broker) Password() string { return b.guard.password }

// AdminURL returns the administrator's URL of the server of an instance: for measurements, never
// for an app. It is empty for Redis.
func (b *Broker) AdminURL(id string) string {
	if i := b.state.get(id); i != nil && i.On == own {
		if db, err := b.own.remote(i); err == nil {
			return db.adminURL()
		}
	}
	return ""
}

// Start starts the API, and resumes unfinished operations.
func (b *Broker) Start(ctx context.Context) error {
	return b.Launch(ctx, func(work context.Context, spawn func(func())) (err error) {
		var listen net.ListenConfig
		if b.listener, err = listen.Listen(ctx, "tcp", b.config.Listen); err != nil {
			return fmt.Errorf("service broker: %w", err)
		}
		b.work, b.spawn, b.closed = work, spawn, make(chan struct{})
		for _, list := range b.backends {
			for _, s := range list {
				if err := s.start(ctx); err != nil {
					b.listener.Close()
					b.stopServers(false)
					return fmt.Errorf("service broker: %w", err)
				}
			}
		}
		server := &http.Server{Handler: b.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
			IdleTimeout: 2 * time.Minute, ErrorLog: nil}
		spawn(func() {
			if err := server.Serve(b.listener); !errors.Is(err, http.ErrServerClosed) {
				b.config.Log.Error("service broker API failed", "error", err)
			}
		})
		spawn(func() {
			defer close(b.closed)
			<-work.Done()
			limit, cancel := context.WithTimeout(context.WithoutCancel(work), shutdownTime)
			defer cancel()
			if server.Shutdown(limit) != nil {
				server.Close() //nolint:errcheck // it is closed in any case
			}
		})
		spawn(func() { b.finishAll(work) })
		spawn(func() { b.watchSizes(work) })
		if b.own != nil {
			spawn(func() { b.own.watch(work, b.checkSize) })
		}
		for name, why := range b.missing {
			b.config.Log.Info("service not offered", "service", name, "reason", why)
		}
		return nil
	})
}

// Stop stops the API, then the servers.
func (b *Broker) Stop() {
	b.Halt(func() {
		<-b.closed
		b.forward.Stop()
		b.stopServers(false)
	})
	b.forward.Stop() // after Leave
}

// Leave stops the API and leaves everything else to the broker of another process: servers
// continue, and it adopts them. Connections of apps continue, and new ones are accepted
// until Retire.
func (b *Broker) Leave() {
	b.Halt(func() {
		<-b.closed
		b.forward.RetireStarters()
		b.stopServers(true)
	})
}

// Retire accepts no more connections of apps to servers, because another process does.
// Those that exist continue until Stop.
func (b *Broker) Retire() { b.forward.Retire() }

// Connections returns how many connections of apps to servers are open here.
func (b *Broker) Connections() int { return b.forward.Connections() }

func (b *Broker) stopServers(leave bool) {
	var wait background.WaitGroup
	for _, list := range b.backends {
		for _, s := range list {
			wait.Go("broker stop", func() { s.stop(leave) })
		}
	}
	wait.Wait()
}

// backendOf returns the backend of an instance.
func (b *Broker) backendOf(i *instance) (backend, error) {
	for _, s := range b.backends[i.Offering] {
		if s.name() == i.On {
			return s, nil
		}
	}
	if i.isOurs() {
		return nil, fmt.Errorf("the server of this instance cannot be run: %w", b.missing[i.Offering])
	}
	return nil, fmt.Errorf("this instance is on the server %s, which is not the configured one", i.On)
}
