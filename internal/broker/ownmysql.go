package broker

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"ingot/internal/base/daemon"
	"ingot/internal/broker/forward"
)

// ownMySQL makes servers of MariaDB.
type ownMySQL struct {
	program, install string
	version          func() string
}

func newOwnMySQL() (*ownMySQL, error) {
	program, install, err := daemon.MariaDB()
	if err != nil {
		return nil, err
	}
	return &ownMySQL{program, install, sync.OnceValue(func() string { return daemon.Version(program) })}, nil
}

func (*ownMySQL) user() string      { return "mysql" }
func (*ownMySQL) socket() string    { return "socket" }
func (k *ownMySQL) edition() string { return k.version() }

// ownRedo is the log size of a new server. A server keeps its template's size.
const ownRedo = "--innodb-log-file-size=16M"

func (k *ownMySQL) template(ctx context.Context, owner *syscall.Credential, dir, fresh string) error {
	return daemon.Run(daemon.Command(ctx, owner, dir, []string{"TMPDIR=" + dir}, k.install, "--no-defaults",
		"--datadir="+fresh,
		"--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", ownRedo))
}

func (k *ownMySQL) database(place ownPlace, i *instance) (ownDatabase, error) {
	at := forward.Local(i.Port)
	password := place.secret.password("admin", MySQL, i.ID)
	m, err := dialedMariaDB(own, at, adminUser, password,
		func(ctx context.Context, _, _ string) (net.Conn, error) { return place.dial(ctx) })
	if err != nil {
		return nil, err
	}
	m.managed, m.owner = true, place.owner
	data, first := filepath.Join(place.dir, "data"), filepath.Join(place.dir, "first.sql")
	m.daemon = daemon.New(daemon.Spec{
		Name: "MariaDB " + i.hash(), Dir: place.dir, Owner: place.owner, Program: k.program, Data: data,
		PIDFile: filepath.Join(place.dir, "pid"),
		Args: append([]string{
			"--no-defaults", "--datadir=" + data, "--socket=../" + k.socket(), "--pid-file=" + filepath.Join(place.dir, "pid"),
			"--init-file=" + first, "--secure-file-priv=" + filepath.Join(place.dir, "none"),
		}, ownMySQLSettings(planOf(i))...),
		Env:  []string{"TMPDIR=" + filepath.Join(place.dir, "tmp"), "MALLOC_ARENA_MAX=2"},
		Stop: syscall.SIGTERM, Log: place.log, Group: place.group, MaxData: place.maxData(i),
		Prepare: func(ctx context.Context) error {
			for _, name := range []string{"none", "tmp"} {
				if err := daemon.MakeDir(filepath.Join(place.dir, name), place.owner); err != nil {
					return err
				}
			}
			if err := place.fill(ctx, data); err != nil {
				return err
			}
			return daemon.WriteFile(first, []byte(firstStatements(password, "localhost")), place.owner)
		},
		Answers: m.answers,
	})
	return m, nil
}

// ownMySQLSettings are for a server that uses little while it is idle.
func ownMySQLSettings(p plan) []string {
	return []string{
		"--skip-networking", "--skip-name-resolve", "--local-infile=0", "--skip-symbolic-links", "--skip-log-bin",
		"--max-connections=" + strconv.Itoa(p.connections+ownExtra+20), "--connect-timeout=15",
		"--max-connect-errors=4294967295", "--event-scheduler=OFF",
		"--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci",
		fmt.Sprintf("--innodb-buffer-pool-size=%dM", p.memory/6/mib), "--innodb-buffer-pool-chunk-size=2M", ownRedo,
		"--innodb-log-buffer-size=2M",
		"--innodb-read-io-threads=1", "--innodb-write-io-threads=1", "--innodb-purge-threads=1", "--innodb-use-native-aio=0",
		"--performance-schema=OFF", "--key-buffer-size=1M", "--aria-pagecache-buffer-size=1M", "--query-cache-type=0",
		"--query-cache-size=0",
		"--table-open-cache=400", "--table-definition-cache=400", "--thread-cache-size=4",
		// Files of one table; those of all are limited by the disk.
		fmt.Sprintf("--tmp-disk-table-size=%d", p.bytes/2),
		// This file becomes smaller with the next start only.
		fmt.Sprintf("--innodb-temp-data-file-path=ibtmp1:12M:autoextend:max:%dM", p.bytes/2/mib),
	}
}

func (m *mariadb) server() *daemon.Daemon { return m.daemon }

const otherUsers = " FROM information_schema.processlist WHERE user NOT IN ('" + adminUser +
	"', 'system user', 'unauthenticated user')"

func (m *mariadb) clients(ctx context.Context) (n int, err error) {
	err = m.admin.QueryRowContext(ctx, "SELECT COUNT(*)"+otherUsers).Scan(&n)
	return n, err
}

func (m *mariadb) disconnect(ctx context.Context) error {
	rows, err := m.admin.QueryContext(ctx, "SELECT id"+otherUsers)
	if err != nil {
		return err
	}
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, id := range ids {
		_ = m.exec(ctx, fmt.Sprintf("KILL CONNECTION %d", id)) // it may have ended
	}
	return nil
}
