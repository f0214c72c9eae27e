package broker

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"ingot/internal/base/daemon"
	"ingot/internal/broker/forward"
)

const (
	adminUser = "ingotadmin"
	idleTime  = 30 * time.Second
	newData   = "new-" // prefix of directories that are not complete
)

// localPostgres returns a backend for a server that is started on first use.
func (c Config) localPostgres(s secret) (*postgres, error) {
	dir := filepath.Join(c.Dir, Postgres)
	data := filepath.Join(dir, "data")
	bin, err := daemon.PostgresFor(data)
	if err != nil {
		return nil, err
	}
	owner, err := c.owner("postgres")
	if err != nil {
		return nil, err
	}
	port, err := keptPort(filepath.Join(c.Dir, "broker", Postgres), c.Reach.Host)
	if err != nil {
		return nil, err
	}
	at := forward.Local(port)
	password := s.password("admin", Postgres)
	config, err := pgx.ParseConfig(fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable&connect_timeout=10",
		adminUser, at))
	if err != nil {
		return nil, err
	}
	config.Password = password
	p := newPostgres(local, config, at)
	p.managed, p.bin, p.dir, p.owner = true, bin, dir, owner
	args := []string{"-D", data}
	for _, setting := range []string{
		"listen_addresses=" + forward.Loopback.String(), "port=" + strconv.Itoa(port), "unix_socket_directories=",
		"max_connections=" + strconv.Itoa(serverConnections), "superuser_reserved_connections=10",
		// Close connections that do not log in.
		"authentication_timeout=15s", "shared_buffers=64MB", "jit=off",
		"password_encryption=scram-sha-256", "log_min_messages=warning",
		// A statement that fails must not leave its text in the log.
		"log_min_error_statement=panic",
	} {
		args = append(args, "-c", setting)
	}
	p.daemon = daemon.New(daemon.Spec{
		Name: "PostgreSQL", Dir: dir, Owner: owner, Program: filepath.Join(bin, "postgres"), Args: args,
		Data: data, PIDFile: filepath.Join(data, "postmaster.pid"), Stop: syscall.SIGINT, Log: c.Log,
		Prepare: func(ctx context.Context) error { return initPostgres(ctx, bin, dir, data, password, owner) },
		Answers: func(ctx context.Context) error { return p.revokePublic(ctx) },
	})
	return p, nil
}

// stopDaemon stops a server, or leaves it to the next broker.
func stopDaemon(d *daemon.Daemon, leave bool) {
	if leave {
		d.Leave()
	} else {
		d.Stop()
	}
}

// initPostgres creates the data directory atomically.
func initPostgres(ctx context.Context, bin, dir, data, password string, owner *syscall.Credential) error {
	return createAtomically(dir, data, func(fresh string) error { return initdb(ctx, bin, dir, fresh, password, owner) })
}

// initdb creates a data directory in fresh.
func initdb(ctx context.Context, bin, dir, fresh, password string, owner *syscall.Credential, more ...string) error {
	// initdb reads the password from a file, which is deleted afterwards.
	passwordFile := fresh + "-password"
	if err := daemon.WriteFile(passwordFile, []byte(password+"\n"), owner); err != nil {
		return err
	}
	defer os.Remove(passwordFile)
	var err error
	// C.UTF-8 supports the characters of all languages, but some systems lack it.
	for _, locale := range []string{"C.UTF-8", "C"} {
		err = daemon.Run(daemon.Command(ctx, owner, dir, nil, filepath.Join(bin, "initdb"), append([]string{
			"-D", fresh, "-U", adminUser, "--pwfile", passwordFile, "-E", "UTF8", "--locale", locale, "-A", "scram-sha-256",
		}, more...)...))
		if err == nil || ctx.Err() != nil {
			return err
		}
		if err := os.RemoveAll(fresh); err != nil {
			return err
		}
	}
	return err
}

// createAtomically calls f with the name of a directory to create, and renames
// it to data when f succeeds. It removes incomplete directories of earlier calls.
func createAtomically(dir, data string, f func(fresh string) error) error {
	if _, err := os.Stat(data); err == nil {
		return nil
	}
	old, _ := filepath.Glob(filepath.Join(dir, newData+"*"))
	for _, path := range old {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	fresh := filepath.Join(dir, newData+newNonce()[:8])
	if err := f(fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, data); err != nil {
		return err
	}
	return daemon.SyncDir(dir)
}

// revokePublic checks that the server responds, and revokes the access of other
// users to the databases of a new server.
func (p *postgres) revokePublic(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, p.config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // everything is committed
	var open bool
	err = conn.QueryRow(ctx, "SELECT has_database_privilege('public', 'postgres', 'CONNECT') OR "+
		"has_database_privilege('public', 'template1', 'CONNECT')").Scan(&open)
	if err != nil || !open {
		return err
	}
	return inTx(ctx, conn,
		"REVOKE ALL ON DATABASE postgres FROM PUBLIC", "REVOKE ALL ON DATABASE template1 FROM PUBLIC")
}

func (p *postgres) adminURL() string {
	return adminURL("postgres", p.config.User, p.config.Password, p.at, "/postgres")
}

func adminURL(scheme, user, password string, at forward.Endpoint, path string) string {
	u := url.URL{Scheme: scheme, User: url.UserPassword(user, password), Host: at.String(), Path: path}
	return u.String()
}
