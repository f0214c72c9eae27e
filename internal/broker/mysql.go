package broker

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"ingot/internal/base/daemon"
	"ingot/internal/broker/forward"
)

// mariadb is the backend for databases on a MariaDB server.
//
// A database has an owner, which is a locked account. Views, triggers and
// routines are transferred to it when the user that defined them is deleted,
// because they run with the rights of their definer.
type mariadb struct {
	label     string
	connector driver.Connector
	admins    string         // the administrator's URL
	password  string         // of the administrator
	pool      *sql.DB        // of the administrator's connections
	admin     querier        // pool, or one of its connections
	daemon    *daemon.Daemon // nil for an external server
	at        forward.Endpoint
	managed   bool
	owner     *syscall.Credential // the user that a server of Ingot's runs as
}

// externalMySQL returns a backend for the server at a URL,
// mysql://USER:PASSWORD@HOST:PORT.
func externalMySQL(address string) (*mariadb, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb" || u.Hostname() == "" || u.User == nil {
		return nil, errors.New("--mysql-url: not a MySQL URL; it looks like mysql://USER:PASSWORD@HOST:PORT")
	}
	port := 3306
	if u.Port() != "" {
		if port, err = strconv.Atoi(u.Port()); err != nil {
			return nil, errors.New("--mysql-url: the port is not a number")
		}
	}
	password, _ := u.User.Password()
	at := forward.Endpoint{Host: u.Hostname(), Port: port}
	return newMariaDB(at.String(), at, u.User.Username(), password)
}

func newMariaDB(label string, at forward.Endpoint, user, password string) (*mariadb, error) {
	return dialedMariaDB(label, at, user, password, nil)
}

// dialedMariaDB is like newMariaDB, but connects with dial unless it is nil.
func dialedMariaDB(label string, at forward.Endpoint, user, password string, dial func(ctx context.Context, network,
	address string) (net.Conn, error)) (*mariadb, error) {
	c := mysql.NewConfig()
	c.DialFunc = dial
	c.User, c.Passwd, c.Net, c.Addr = user, password, "tcp", at.String()
	c.Timeout, c.Logger = idleTime, silent{}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return &mariadb{label: label, at: at, connector: connector, admins: adminURL("mysql", user, password, at, "/"),
		password: password}, nil
}

// silent discards the driver's log, because errors are returned as well.
type silent struct{}

func (silent) Print(...any) {}

// localMySQL returns a backend for a server that is started on first use.
func (c Config) localMySQL(s secret) (*mariadb, error) {
	program, install, err := daemon.MariaDB()
	if err != nil {
		return nil, err
	}
	owner, err := c.owner("mysql")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.Dir, MySQL)
	port, err := keptPort(filepath.Join(c.Dir, "broker", MySQL), c.Reach.Host)
	if err != nil {
		return nil, err
	}
	password := s.password("admin", MySQL)
	m, err := newMariaDB(local, forward.Local(port), adminUser, password)
	if err != nil {
		return nil, err
	}
	m.managed, m.owner = true, owner
	data, first := filepath.Join(dir, "data"), filepath.Join(dir, "first.sql")
	// A server that starts deletes the temporary tables that it finds there, also those of other
	// servers. A variable, because a server with other arguments is not adopted.
	temporary := []string{"TMPDIR=" + filepath.Join(dir, "tmp")}
	m.daemon = daemon.New(daemon.Spec{
		Name: "MariaDB", Dir: dir, Owner: owner, Program: program, Data: data, PIDFile: filepath.Join(dir, "pid"),
		Args: []string{
			"--no-defaults", "--datadir=" + data, "--bind-address=" + forward.Loopback.String(), "--port=" + strconv.Itoa(port),
			"--socket=" + socketPath(dir), "--pid-file=" + filepath.Join(dir, "pid"), "--init-file=" + first,
			"--skip-name-resolve", "--local-infile=0", "--skip-symbolic-links", "--secure-file-priv=" +
				filepath.Join(dir, "none"),
			"--skip-log-bin", "--max-connections=" + strconv.Itoa(serverConnections), "--connect-timeout=15",
			"--max-connect-errors=4294967295", "--innodb-buffer-pool-size=64M", "--event-scheduler=OFF",
			"--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci",
		},
		Env:  temporary,
		Stop: syscall.SIGTERM, Log: c.Log,
		Prepare: func(ctx context.Context) error {
			for _, name := range []string{"none", "tmp"} {
				if err := daemon.MakeDir(filepath.Join(dir, name), owner); err != nil {
					return err
				}
			}
			err := createAtomically(dir, data, func(fresh string) error {
				return daemon.Run(daemon.Command(ctx, owner, dir, temporary, install, "--no-defaults", "--datadir="+fresh,
					"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"))
			})
			if err != nil {
				return err
			}
			return daemon.WriteFile(first, []byte(firstStatements(password, "127.0.0.1")), owner)
		},
		Answers: m.answers,
	})
	return m, nil
}

// socketPath returns a path in dir, unless it is too long for a socket. The
// socket is not used.
func socketPath(dir string) string {
	if path := filepath.Join(dir, "socket"); len(path) < 100 {
		return path
	}
	return filepath.Join(os.TempDir(), "ingot-mariadb-"+hash(dir)[:8])
}

// firstStatements returns SQL to run at every start: it creates the administrator
// and deletes the accounts without a password that a new server has.
func firstStatements(password, host string) string {
	admin := "'" + adminUser + "'@'" + host + "'"
	statements := []string{
		"CREATE USER IF NOT EXISTS " + admin + " IDENTIFIED VIA mysql_native_password USING '" + native(password) + "'",
		"GRANT ALL PRIVILEGES ON *.* TO " + admin + " WITH GRANT OPTION",
		"DROP USER IF EXISTS 'root'@'localhost'", "DROP USER IF EXISTS 'root'@'127.0.0.1'",
		"DROP USER IF EXISTS 'root'@'::1'",
		"DROP USER IF EXISTS ''@'localhost'", "DELETE FROM mysql.global_priv WHERE User = 'root' OR User = ''",
		"FLUSH PRIVILEGES",
	}
	return strings.Join(statements, ";\n") + ";\n"
}

func (m *mariadb) adminURL() string { return m.admins }

func (m *mariadb) name() string                      { return m.label }
func (m *mariadb) target(*instance) forward.Endpoint { return m.at }
func (m *mariadb) capacity(*instance) int            { return appConnections }
func (m *mariadb) up(*instance) bool                 { return m.daemon == nil || m.daemon.Up() }

func (m *mariadb) start(ctx context.Context) error {
	m.pool = limitConnections(sql.OpenDB(m.connector))
	m.admin = m.pool
	if m.daemon == nil {
		return nil
	}
	return m.daemon.Start(ctx)
}

func (m *mariadb) stop(leave bool) {
	if m.pool != nil {
		m.pool.Close()
	}
	if m.daemon != nil {
		stopDaemon(m.daemon, leave)
	}
}

func (m *mariadb) wake(context.Context, *instance) error { //nolint:unparam // other kinds fail
	if m.daemon != nil {
		m.daemon.Wake()
	}
	return nil
}

func (m *mariadb) ensure(ctx context.Context, _ *instance) error {
	if m.daemon != nil {
		return m.daemon.Ensure(ctx)
	}
	return m.answers(ctx)
}

func (m *mariadb) answers(ctx context.Context) error {
	var version string
	if err := m.admin.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return err
	}
	if !strings.Contains(version, "MariaDB") {
		return fmt.Errorf("--mysql-url: the server is %s; only MariaDB is supported", version)
	}
	return nil
}

func (m *mariadb) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := m.admin.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// account returns an account for any host. Names need no escaping.
func account(name string) string { return "'" + name + "'@'%'" }

// The privileges on a database: all, or those an app over its size needs to
// delete data. It cannot grant itself more.
const (
	allRights  = "ALL PRIVILEGES"
	overRights = "SELECT, DELETE, DROP, LOCK TABLES, SHOW VIEW, EXECUTE"
)

// grant sets the privileges of an account on the database.
func (m *mariadb) grant(ctx context.Context, i *instance, name string) error {
	if i.Over {
		// REVOKE fails if there is nothing to revoke.
		if err := m.exec(ctx, "GRANT SELECT ON `"+i.database()+"`.* TO "+account(name),
			"REVOKE ALL PRIVILEGES ON `"+i.database()+"`.* FROM "+account(name)); err != nil {
			return err
		}
		return m.exec(ctx, "GRANT "+overRights+" ON `"+i.database()+"`.* TO "+account(name))
	}
	return m.exec(ctx, "GRANT "+allRights+" ON `"+i.database()+"`.* TO "+account(name))
}

func (m *mariadb) create(ctx context.Context, i *instance, p parameters) error {
	return m.alone(ctx, i, func(m *mariadb) error { return m.createAlone(ctx, i, p) })
}

func (m *mariadb) createAlone(ctx context.Context, i *instance, p parameters) error {
	set := cmp.Or(p.CharacterSet, characterSets[0])
	if err := m.exec(ctx, "CREATE DATABASE IF NOT EXISTS `"+i.database()+"` CHARACTER SET "+set,
		"CREATE USER IF NOT EXISTS "+account(i.owner())+" ACCOUNT LOCK"); err != nil {
		return err
	}
	return m.grant(ctx, i, i.owner())
}

func (m *mariadb) drop(ctx context.Context, i *instance) error {
	if err := m.ensure(ctx, i); err != nil {
		return err
	}
	return m.alone(ctx, i, func(m *mariadb) error { return m.dropAlone(ctx, i) })
}

func (m *mariadb) dropAlone(ctx context.Context, i *instance) error {
	for _, b := range i.Bindings {
		if err := m.lockUser(ctx, i, b); err != nil {
			return err
		}
		if err := m.exec(ctx, "DROP USER IF EXISTS "+account(i.user(b))); err != nil {
			return err
		}
	}
	if m.managed { // only the data on these servers is saved
		if err := m.dropTemporary(ctx, i); err != nil {
			return err
		}
	}
	return m.exec(ctx, "DROP DATABASE IF EXISTS `"+i.database()+"`", "DROP USER IF EXISTS "+account(i.owner()))
}

// resize sets the privileges. MariaDB limits connections per user, not per
// database, so each binding has the plan's limit.
func (m *mariadb) resize(ctx context.Context, i *instance) error {
	if err := m.grant(ctx, i, i.owner()); err != nil {
		return err
	}
	for _, b := range i.Bindings {
		if b.Phase != ready {
			continue
		}
		if err := m.grant(ctx, i, i.user(b)); err != nil {
			return err
		}
		// Open connections keep their privileges.
		if err := m.exec(ctx, "KILL USER "+account(i.user(b))); err != nil {
			return err
		}
	}
	return nil
}

func (m *mariadb) size(ctx context.Context, i *instance) (n int64, err error) {
	err = m.admin.QueryRowContext(ctx,
		"SELECT CAST(COALESCE(SUM(data_length + index_length), 0) AS UNSIGNED) FROM information_schema.tables WHERE "+
			"table_schema = ?", i.database()).Scan(&n)
	return n, err
}

func (m *mariadb) bind(ctx context.Context, i *instance, b *binding, password string) error {
	return m.alone(ctx, i, func(m *mariadb) error { return m.bindAlone(ctx, i, b, password) })
}

func (m *mariadb) bindAlone(ctx context.Context, i *instance, b *binding, password string) error {
	user := account(i.user(b))
	set := " IDENTIFIED VIA mysql_native_password USING '" + native(password) + "' WITH MAX_USER_CONNECTIONS " +
		strconv.Itoa(planOf(i).connections)
	if err := m.exec(ctx, "CREATE USER IF NOT EXISTS "+user+set, "ALTER USER "+user+set+" ACCOUNT UNLOCK"); err != nil {
		return err
	}
	return m.grant(ctx, i, i.user(b))
}

// lockUser prevents a user from logging in and closes its connections.
func (m *mariadb) lockUser(ctx context.Context, i *instance, b *binding) error {
	return m.exec(ctx, "ALTER USER IF EXISTS "+account(i.user(b))+" ACCOUNT LOCK", "KILL USER "+account(i.user(b)))
}

func (m *mariadb) unbind(ctx context.Context, i *instance, b *binding) error {
	return m.alone(ctx, i, func(m *mariadb) error { return m.unbindAlone(ctx, i, b) })
}

func (m *mariadb) unbindAlone(ctx context.Context, i *instance, b *binding) error {
	if err := m.lockUser(ctx, i, b); err != nil {
		return err
	}
	if err := m.transferDefinitions(ctx, i, b); err != nil {
		return err
	}
	return m.exec(ctx, "DROP USER IF EXISTS "+account(i.user(b)))
}

func (m *mariadb) credentials(i *instance, b *binding, at forward.Endpoint, password string) map[string]any {
	user, database := i.user(b), i.database()
	uri := url.URL{Scheme: "mysql", User: url.UserPassword(user, password),
		Host: net.JoinHostPort(at.Host, strconv.Itoa(at.Port)), Path: "/" + database}
	query := url.Values{"user": {user}, "password": {password}}
	return credentials(at, database, user, password, uri.String(), fmt.Sprintf("jdbc:mysql://%s/%s?%s", at, database,
		query.Encode()))
}
