package broker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"ingot/internal/base/daemon"
)

// postgres makes databases on a PostgreSQL server.
//
// A database belongs to the administrator, who sets its limits. All that is in
// it belongs to a role that cannot log in. The user of a binding is a member of
// that role and becomes it on connecting, so that what one binding creates is
// the next one's too. Nobody else may connect to the database.
type postgres struct {
	label  string
	config *pgx.ConnConfig // of the administrator
	admin  *sql.DB
	daemon *daemon.Daemon // nil when the server is somebody else's
	at     endpoint
	mine   bool // the server holds nothing but what we put there
}

// externalPostgres uses a server by its URL.
func externalPostgres(address string) (*postgres, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		// The driver's own message may repeat the URL, with the password.
		return nil, errors.New("--postgres-url: not a PostgreSQL URL; it looks like postgres://USER:PASSWORD@HOST:PORT/postgres")
	}
	if strings.HasPrefix(config.Host, "/") {
		return nil, errors.New("--postgres-url: apps need a TCP address, not a socket")
	}
	at := endpoint{config.Host, int(config.Port)}
	return newPostgres(at.String(), config, at), nil
}

func newPostgres(label string, config *pgx.ConnConfig, at endpoint) *postgres {
	config.RuntimeParams["application_name"] = "ingot"
	return &postgres{label: label, config: config, at: at}
}

func (p *postgres) name() string              { return p.label }
func (p *postgres) target(*instance) endpoint { return p.at }
func (p *postgres) capacity(*instance) int    { return appConnections }
func (p *postgres) up(*instance) bool         { return p.daemon == nil || p.daemon.Up() }

func (p *postgres) start(ctx context.Context) error {
	p.admin = few(stdlib.OpenDB(*p.config))
	if p.daemon == nil {
		return nil
	}
	return p.daemon.Start(ctx)
}

// few bounds an administrator's connections.
func few(db *sql.DB) *sql.DB {
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(2)
	db.SetConnMaxIdleTime(idleTime)
	return db
}

func (p *postgres) stop() {
	if p.admin != nil {
		p.admin.Close()
	}
	if p.daemon != nil {
		p.daemon.Stop()
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
	return p.admin.PingContext(ctx)
}

// quote is for names. All of ours are letters and digits anyway.
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
	owner, database := quote(i.owner()), quote(i.database())
	there, err := p.exists(ctx, "SELECT FROM pg_roles WHERE rolname = $1", i.owner())
	if err != nil {
		return err
	}
	if !there {
		if err := p.exec(ctx, "CREATE ROLE "+owner+" NOLOGIN"); err != nil {
			return err
		}
	}
	if !p.mine { // where we are no superuser, only members may give things to a role
		if err := p.exec(ctx, "GRANT "+owner+" TO CURRENT_USER"); err != nil {
			return err
		}
	}
	if there, err = p.hasDatabase(ctx, i); err != nil {
		return err
	}
	if !there {
		// Nobody gets in before the rights are set. Only superusers would.
		limit := 0
		if !p.mine {
			limit = -1
		}
		if err := p.exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8' CONNECTION LIMIT %d", database, limit)); err != nil {
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
	// First nobody may come back.
	for _, b := range i.Bindings {
		if err := p.lockOut(ctx, i, b); err != nil {
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

// resize sets the limit of connections, and whether there may be writes.
//
// An app can turn default_transaction_read_only off for its session: PostgreSQL
// has no quota, and an app that is over its size has to be able to delete. What
// writes on against it is stopped by nothing but the operator.
func (p *postgres) resize(ctx context.Context, i *instance) error {
	database := quote(i.database())
	readOnly := "ALTER DATABASE " + database + " RESET default_transaction_read_only"
	if i.Over {
		readOnly = "ALTER DATABASE " + database + " SET default_transaction_read_only = on"
	}
	if err := p.exec(ctx, fmt.Sprintf("ALTER DATABASE %s CONNECTION LIMIT %d", database, planOf(i).connections), readOnly); err != nil {
		return err
	}
	if !i.Over {
		return nil
	}
	_, err := p.admin.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()", i.database())
	return err
}

func (p *postgres) size(ctx context.Context, i *instance) (n int64, err error) {
	err = p.admin.QueryRowContext(ctx, "SELECT pg_database_size($1::text)", i.database()).Scan(&n)
	return n, err
}

func (p *postgres) bind(ctx context.Context, i *instance, b *binding, password string) error {
	verifier, err := scram(password)
	if err != nil {
		return err
	}
	user, owner := quote(i.user(b)), quote(i.owner())
	there, err := p.exists(ctx, "SELECT FROM pg_roles WHERE rolname = $1", i.user(b))
	if err != nil {
		return err
	}
	verb := "CREATE"
	if there {
		verb = "ALTER"
	}
	tx, err := p.admin.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after a commit
	for _, s := range []string{
		fmt.Sprintf("%s ROLE %s LOGIN INHERIT CONNECTION LIMIT %d PASSWORD '%s'", verb, user, planOf(i).connections, verifier),
		"GRANT " + owner + " TO " + user,
		"ALTER ROLE " + user + " IN DATABASE " + quote(i.database()) + " SET role = " + owner,
	} {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// lockOut sees that a user is not there any more and cannot come back.
func (p *postgres) lockOut(ctx context.Context, i *instance, b *binding) error {
	there, err := p.exists(ctx, "SELECT FROM pg_roles WHERE rolname = $1", i.user(b))
	if err != nil || !there {
		return err
	}
	if err := p.exec(ctx, "ALTER ROLE "+quote(i.user(b))+" NOLOGIN"); err != nil {
		return err
	}
	if !p.mine { // only members may end its connections and take what it owns
		if err := p.exec(ctx, "GRANT "+quote(i.user(b))+" TO CURRENT_USER"); err != nil {
			return err
		}
	}
	_, err = p.admin.ExecContext(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", i.user(b))
	return err
}

func (p *postgres) unbind(ctx context.Context, i *instance, b *binding) error {
	if err := p.lockOut(ctx, i, b); err != nil {
		return err
	}
	there, err := p.exists(ctx, "SELECT FROM pg_roles WHERE rolname = $1", i.user(b))
	if err != nil || !there {
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
		// What it made as itself, and not as the owner, goes to the owner.
		return inTx(ctx, conn, "REASSIGN OWNED BY "+user+" TO "+quote(i.owner()), "DROP OWNED BY "+user, "DROP ROLE "+user)
	})
}

func (p *postgres) credentials(i *instance, b *binding, at endpoint, password string) map[string]any {
	user, database := i.user(b), i.database()
	uri := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: at.String(), Path: "/" + database}
	query := url.Values{"user": {user}, "password": {password}}
	if p.mine {
		// The server speaks no TLS: nobody is between it and the app.
		uri.RawQuery = "sslmode=disable"
		query.Set("sslmode", "disable")
	}
	return credentials(at, database, user, password, uri.String(), fmt.Sprintf("jdbc:postgresql://%s/%s?%s", at, database, query.Encode()))
}

// credentials are those of every kind, with the other names that libraries look
// for.
func credentials(at endpoint, database, user, password, uri, jdbc string) map[string]any {
	return map[string]any{
		"host": at.host, "hostname": at.host, "port": at.port, "database": database, "name": database,
		"username": user, "password": password, "uri": uri, "jdbcUrl": jdbc,
	}
}
