package broker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"ingot/internal/base/daemon"
	"ingot/internal/broker/forward"
)

// postgres is the backend for databases on a PostgreSQL server.
//
// A database belongs to the administrator, which sets its limits. Everything in it
// belongs to a role that cannot log in. The user of a binding is a member of that
// role and switches to it on connecting, so that all bindings own what one of
// them creates. No other user may connect to the database.
type postgres struct {
	label   string
	config  *pgx.ConnConfig // of the administrator
	pool    *sql.DB         // of the administrator's connections
	admin   querier         // pool, or one of its connections
	daemon  *daemon.Daemon  // nil for an external server
	at      forward.Endpoint
	managed bool                // the server is run by Ingot alone
	bin     string              // the directory of its programs
	dir     string              // the directory of a server that Ingot runs
	owner   *syscall.Credential // the user it runs as
}

// externalPostgres returns a backend for the server at a URL.
func externalPostgres(address string) (*postgres, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		// The driver's own message may repeat the URL, with the password.
		return nil,
			errors.New("--postgres-url: not a PostgreSQL URL; it looks like postgres://USER:PASSWORD@HOST:PORT/postgres")
	}
	if strings.HasPrefix(config.Host, "/") {
		return nil, errors.New("--postgres-url: apps need a TCP address, not a socket")
	}
	at := forward.Endpoint{Host: config.Host, Port: int(config.Port)}
	return newPostgres(at.String(), config, at), nil
}

func newPostgres(label string, config *pgx.ConnConfig, at forward.Endpoint) *postgres {
	config.RuntimeParams["application_name"] = "ingot"
	return &postgres{label: label, config: config, at: at}
}

func (p *postgres) name() string                      { return p.label }
func (p *postgres) target(*instance) forward.Endpoint { return p.at }
func (p *postgres) capacity(*instance) int            { return appConnections }
func (p *postgres) up(*instance) bool                 { return p.daemon == nil || p.daemon.Up() }

func (p *postgres) start(ctx context.Context) error {
	p.pool = limitConnections(stdlib.OpenDB(*p.config))
	p.admin = p.pool
	if p.daemon == nil {
		return nil
	}
	return p.daemon.Start(ctx)
}

// limitConnections limits an administrator's connections.
func limitConnections(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(2)
	db.SetConnMaxIdleTime(idleTime)
	return db
}

func (p *postgres) stop(leave bool) {
	if p.pool != nil {
		p.pool.Close()
	}
	if p.daemon != nil {
		stopDaemon(p.daemon, leave)
	}
}

func (p *postgres) wake(context.Context, *instance) error { //nolint:unparam // other kinds fail
	if p.daemon != nil {
		p.daemon.Wake()
	}
	return nil
}

func (p *postgres) ensure(ctx context.Context, _ *instance) error {
	if p.daemon != nil {
		return p.daemon.Ensure(ctx)
	}
	return p.pool.PingContext(ctx)
}

// quote quotes an identifier.
func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// exec runs statements on the administrator's database, one by one.
func (p *postgres) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := p.admin.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// inside runs f in the instance's database, as the administrator.
func (p *postgres) inside(ctx context.Context, i *instance, f func(*pgx.Conn) error) error {
	c := p.config.Copy()
	c.Database = i.database()
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all was committed before
	return f(conn)
}

func (p *postgres) exists(ctx context.Context, query, name string) (bool, error) {
	var yes bool
	err := p.admin.QueryRowContext(ctx, "SELECT EXISTS ("+query+")", name).Scan(&yes)
	return yes, err
}

func (p *postgres) hasDatabase(ctx context.Context, i *instance) (bool, error) {
	return p.exists(ctx, "SELECT FROM pg_database WHERE datname = $1", i.database())
}

func (p *postgres) create(ctx context.Context, i *instance, params parameters) error {
	return p.alone(ctx, i, func(p *postgres) error { return p.createAlone(ctx, i, params) })
}

func (p *postgres) createAlone(ctx context.Context, i *instance, params parameters) error {
	owner, database := quote(i.owner()), quote(i.database())
	found, err := p.exists(ctx, "SELECT FROM pg_roles WHERE rolname = $1", i.owner())
	if err != nil {
		return err
	}
	if !found {
		if err := p.exec(ctx, "CREATE ROLE "+owner+" NOLOGIN"); err != nil {
			return err
		}
	}
	if !p.managed { // without superuser rights, only members may give objects to a role
		if err := p.exec(ctx, "GRANT "+owner+" TO CURRENT_USER"); err != nil {
			return err
		}
	}
	if found, err = p.hasDatabase(ctx, i); err != nil {
		return err
	}
	if !found {
		// Only superusers may connect before the rights are set.
		limit := 0
		if !p.managed {
			limit = -1
		}
		if err := p.exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8' CONNECTION LIMIT %d",
			database, limit)); err != nil {
			return err
		}
	}
	err = p.inside(ctx, i, func(conn *pgx.Conn) error {
		statements := []string{
			"REVOKE ALL ON DATABASE " + database + " FROM PUBLIC",
			"GRANT CONNECT, CREATE, TEMPORARY ON DATABASE " + database + " TO " + owner,
			"ALTER SCHEMA public OWNER TO " + owner,
			"REVOKE ALL ON SCHEMA public FROM PUBLIC",
			"GRANT ALL ON SCHEMA public TO " + owner,
		}
		for _, e := range params.Extensions {
			statements = append(statements, "CREATE EXTENSION IF NOT EXISTS "+quote(e)+" SCHEMA public")
		}
		return inTx(ctx, conn, statements...)
	})
	if err != nil {
		return err
	}
	return p.resize(ctx, i)
}

func inTx(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, s := range statements {
			if _, err := tx.Exec(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *postgres) drop(ctx context.Context, i *instance) error {
	if err := p.ensure(ctx, i); err != nil {
		return err
	}
	return p.alone(ctx, i, func(p *postgres) error { return p.dropAlone(ctx, i) })
}

func (p *postgres) dropAlone(ctx context.Context, i *instance) error {
	// First prevent new connections.
	for _, b := range i.Bindings {
		if err := p.lockUser(ctx, i, b); err != nil {
			return err
		}
	}
	if err := p.exec(ctx, "DROP DATABASE IF EXISTS "+quote(i.database())+" WITH (FORCE)"); err != nil {
		return err
	}
	for _, b := range i.Bindings {
		if err := p.exec(ctx, "DROP ROLE IF EXISTS "+quote(i.user(b))); err != nil {
			return err
		}
	}
	return p.exec(ctx, "DROP ROLE IF EXISTS "+quote(i.owner()))
}

// resize sets the limit of connections, and whether the database is read-only.
//
// An app can turn default_transaction_read_only off for its session: PostgreSQL
// has no quotas, and an app over its size has to be able to delete data. Only the
// operator can stop an app that keeps writing this way.
func (p *postgres) resize(ctx context.Context, i *instance) error {
	database := quote(i.database())
	readOnly := "ALTER DATABASE " + database + " RESET default_transaction_read_only"
	if i.Over {
		readOnly = "ALTER DATABASE " + database + " SET default_transaction_read_only = on"
	}
	if err := p.exec(ctx, fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT %d", database, planOf(i).connections),
		readOnly); err != nil {
		return err
	}
	if !i.Over {
		return nil
	}
	_, err := p.admin.ExecContext(ctx,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()", i.database())
	return err
}

func (p *postgres) size(ctx context.Context, i *instance) (n int64, err error) {
	err = p.admin.QueryRowContext(ctx, "SELECT pg_database_size($1::text)", i.database()).Scan(&n)
	return n, err
}

func (p *postgres) bind(ctx context.Context, i *instance, b *binding, password string) error {
	return p.alone(ctx, i, func(p *postgres) error { return p.bindAlone(ctx, i, b, password) })
}

func (p *postgres) bindAlone(ctx context.Context, i *instance, b *binding, password string) error {
	verifier, err := scram(password)
	if err != nil {
		return err
	}
	user, owner := quote(i.user(b)), quote(i.owner())
	found, err := p.exists(ctx, "SELECT FROM pg_roles WHERE rolname = $1", i.user(b))
	if err != nil {
		return err
	}
	verb := "CREATE"
	if found {
		verb = "ALTER"
	}
	tx, err := p.admin.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after a commit
	for _, s := range []string{
		fmt.Sprintf("%s ROLE %s LOGIN INHERIT CONNECTION LIMIT %d PASSWORD '%s'", verb, user,
			planOf(i).connections, verifier),
		"GRANT " + owner + " TO " + user,
		"ALTER ROLE " + user + " IN DATABASE " + quote(i.database()) + " SET role = " + owner,
	} {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// lockUser prevents a user from logging in and closes its connections.
func (p *postgres) lockUser(ctx context.Context, i *instance, b *binding) error {
	found, err := p.exists(ctx, "SELECT FROM pg_roles WHERE rolname = $1", i.user(b))
	if err != nil || !found {
		return err
	}
	if err := p.exec(ctx, "ALTER ROLE "+quote(i.user(b))+" NOLOGIN"); err != nil {
		return err
	}
	if !p.managed { // only members may close its connections and take over its objects
		if err := p.exec(ctx, "GRANT "+quote(i.user(b))+" TO CURRENT_USER"); err != nil {
			return err
		}
	}
	_, err = p.admin.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1",
		i.user(b))
	return err
}

func (p *postgres) unbind(ctx context.Context, i *instance, b *binding) error {
	return p.alone(ctx, i, func(p *postgres) error { return p.unbindAlone(ctx, i, b) })
}

func (p *postgres) unbindAlone(ctx context.Context, i *instance, b *binding) error {
	if err := p.lockUser(ctx, i, b); err != nil {
		return err
	}
	found, err := p.exists(ctx, "SELECT FROM pg_roles WHERE rolname = $1", i.user(b))
	if err != nil || !found {
		return err
	}
	user := quote(i.user(b))
	has, err := p.hasDatabase(ctx, i)
	if err != nil {
		return err
	}
	if !has {
		return p.exec(ctx, "DROP ROLE IF EXISTS "+user)
	}
	return p.inside(ctx, i, func(conn *pgx.Conn) error {
		// Objects it created under its own name are given to the owner.
		return inTx(ctx, conn, "REASSIGN OWNED BY "+user+" TO "+quote(i.owner()), "DROP OWNED BY "+user, "DROP ROLE "+user)
	})
}

func (p *postgres) credentials(i *instance, b *binding, at forward.Endpoint, password string) map[string]any {
	user, database := i.user(b), i.database()
	uri := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: at.String(), Path: "/" + database}
	query := url.Values{"user": {user}, "password": {password}}
	if p.managed {
		// The server has no TLS: traffic to it does not leave the machine.
		uri.RawQuery = "sslmode=disable"
		query.Set("sslmode", "disable")
	}
	return credentials(at, database, user, password, uri.String(), fmt.Sprintf("jdbc:postgresql://%s/%s?%s", at, database,
		query.Encode()))
}

// credentials returns the credentials of any kind of server, with the names that
// various libraries expect.
func credentials(at forward.Endpoint, database, user, password, uri, jdbc string) map[string]any {
	return map[string]any{
		"host": at.Host, "hostname": at.Host, "port": at.Port, "database": database, "name": database,
		"username": user, "password": password, "uri": uri, "jdbcUrl": jdbc,
	}
}
