package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ingot/internal/base/daemon"
	"ingot/internal/broker/forward"
)

// ownPostgres makes servers of PostgreSQL.
type ownPostgres struct {
	bin     string // of new servers
	version func() string
	secret  secret
}

// socketPort is part of the name of a socket of PostgreSQL.
const socketPort = "5432"

func newOwnPostgres(s secret) (*ownPostgres, error) {
	bin, err := daemon.Postgres()
	if err != nil {
		return nil, err
	}
	return &ownPostgres{bin, sync.OnceValue(func() string { return daemon.Version(filepath.Join(bin, "postgres")) }), s},
		nil
}

func (*ownPostgres) user() string      { return "postgres" }
func (*ownPostgres) socket() string    { return ".s.PGSQL." + socketPort }
func (k *ownPostgres) edition() string { return k.version() }

// templatePassword is the administrator's password before the first start.
func (k *ownPostgres) templatePassword() string {
	return k.secret.password("admin", Postgres, "template")
}

// template creates a cluster with small segments of its log.
func (k *ownPostgres) template(ctx context.Context, owner *syscall.Credential, dir, fresh string) error {
	return initdb(ctx, k.bin, dir, fresh, k.templatePassword(), owner, "--no-sync", "--wal-segsize=1")
}

func (k *ownPostgres) database(place ownPlace, i *instance) (ownDatabase, error) {
	data := filepath.Join(place.dir, "data")
	bin, err := daemon.PostgresFor(data)
	if err != nil {
		return nil, err
	}
	at := forward.Local(i.Port)
	config, err := pgx.ParseConfig(fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable&connect_timeout=10",
		adminUser, at))
	if err != nil {
		return nil, err
	}
	config.Password = place.secret.password("admin", Postgres, i.ID)
	config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return place.dial(ctx) }
	p := newPostgres(own, config, at)
	p.managed, p.bin, p.dir, p.owner = true, bin, place.dir, place.owner
	args := []string{"-D", data}
	for _, setting := range ownPostgresSettings(planOf(i)) {
		args = append(args, "-c", setting)
	}
	p.daemon = daemon.New(daemon.Spec{
		Name: "PostgreSQL " + i.hash(), Dir: place.dir, Owner: place.owner,
		Program: filepath.Join(bin, "postgres"), Args: args,
		// If memory runs out, the kernel kills a client's process before the one that restarts them.
		Env:  []string{"PG_OOM_ADJUST_FILE=/proc/self/oom_score_adj", "PG_OOM_ADJUST_VALUE=500"},
		Data: data, PIDFile: filepath.Join(data, "postmaster.pid"), Stop: syscall.SIGINT, Log: place.log,
		Group: place.group, MaxData: place.maxData(i),
		Prepare: func(ctx context.Context) error {
			// What a server that was killed has left.
			for _, suffix := range []string{"", ".lock"} {
				_ = os.Remove(filepath.Join(place.dir, k.socket()+suffix)) // if there is one
			}
			return place.fill(ctx, data)
		},
		Answers: func(ctx context.Context) error { return p.firstAnswers(ctx, k.templatePassword()) },
	})
	return p, nil
}

// ownPostgresSettings are for a server that uses little while it is idle.
func ownPostgresSettings(p plan) []string {
	shared := max(16*mib, p.memory/8)
	return []string{
		"listen_addresses=", "unix_socket_directories=..", "port=" + socketPort, "unix_socket_permissions=0700",
		"max_connections=" + strconv.Itoa(p.connections+ownExtra+20), "superuser_reserved_connections=10",
		"authentication_timeout=15s", "jit=off", "password_encryption=scram-sha-256",
		"log_min_messages=warning", "log_min_error_statement=panic", // as on a server for all
		fmt.Sprintf("shared_buffers=%dMB", shared/mib), fmt.Sprintf("maintenance_work_mem=%dMB", p.memory/8/mib),
		// Files of one session; those of all are limited by the disk.
		fmt.Sprintf("temp_file_limit=%dMB", p.bytes/2/mib),
		fmt.Sprintf("max_wal_size=%dMB", min(gib, p.bytes/8)/mib), "min_wal_size=4MB", "wal_buffers=1MB",
		"max_worker_processes=4", "max_parallel_workers=2", "max_logical_replication_workers=0", "max_wal_senders=0",
		"wal_level=minimal",
		"huge_pages=off",
	}
}

// firstAnswers checks that the server responds. A new one has the password of the template.
func (p *postgres) firstAnswers(ctx context.Context, template string) error {
	err := p.revokePublic(ctx)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "28P01" {
		return err
	}
	verifier, err := scram(p.config.Password)
	if err != nil {
		return err
	}
	c := p.config.Copy()
	c.Password = template
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // everything is committed
	if _, err := conn.Exec(ctx, "ALTER ROLE "+quote(adminUser)+" PASSWORD '"+verifier+"'"); err != nil {
		return err
	}
	return p.revokePublic(ctx)
}

func (p *postgres) server() *daemon.Daemon { return p.daemon }

const otherClients = " FROM pg_stat_activity WHERE backend_type = 'client backend' AND usename <> '" + adminUser + "'"

func (p *postgres) clients(ctx context.Context) (n int, err error) {
	err = p.admin.QueryRowContext(ctx, "SELECT count(*)"+otherClients).Scan(&n)
	return n, err
}

func (p *postgres) disconnect(ctx context.Context) error {
	return p.exec(ctx, "SELECT pg_terminate_backend(pid)"+otherClients)
}

// maxData is the limit of each process where there are no groups.
func (s ownPlace) maxData(i *instance) int64 {
	if s.group != nil {
		return 0
	}
	return planOf(i).memory
}
