package broker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-sql-driver/mysql"

	"ingot/internal/base/daemon"
	"ingot/internal/broker/dump"
)

// dump runs as a temporary user with a tenant's rights. A tenant can replace a table by a
// view at the moment when mariadb-dump reads it, and a view can call functions with the
// rights of the reader. All rights on the database are needed, because mariadb-dump fails
// at a view that it may not use.
func (m *mariadb) dump(ctx context.Context, i *instance, w io.Writer) (missing dump.Lost, err error) {
	program, err := daemon.Program(dump.MariaDBProgram)
	if err != nil {
		return missing, err
	}
	db := sql.OpenDB(m.connector)
	defer db.Close()
	with := *m
	with.admin = db
	name, password := i.temporary()+newNonce()[:8], newNonce() // another backup may be running
	user := account(name)
	err = with.exec(ctx, "CREATE USER "+user+" IDENTIFIED VIA mysql_native_password USING '"+native(password)+"'",
		"GRANT "+allRights+" ON `"+i.database()+"`.* TO "+user,
		"GRANT SELECT ON mysql.proc TO "+user) // without, routines of other users have no text
	if err == nil {
		// The password is in a variable, because anyone can read the arguments.
		missing, err = dump.MariaDB(daemon.Command(ctx, m.owner, "/", []string{"MYSQL_PWD=" + password}, program,
			"--no-defaults", "--protocol=tcp", "--host="+m.at.Host, "--port="+strconv.Itoa(m.at.Port), "--user="+name,
			"--default-character-set=utf8mb4",
			"--force", "--single-transaction", "--routines", "--triggers", "--events", "--hex-blob", "--skip-lock-tables",
			"--no-tablespaces", i.database()), w)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), operationTime)
	defer cancel()
	return missing, errors.Join(err, with.exec(ctx, "DROP USER IF EXISTS "+user))
}

// dropTemporary deletes the temporary users of backups that were killed.
func (m *mariadb) dropTemporary(ctx context.Context, i *instance) error {
	rows, err := m.admin.QueryContext(ctx, "SELECT User FROM mysql.global_priv WHERE User LIKE ?", i.temporary()+"%")
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if err := m.exec(ctx, "DROP USER IF EXISTS "+account(name)); err != nil {
			return err
		}
	}
	return nil
}

func (m *mariadb) before(*instance, io.Reader) error { return nil }

// after loads the data as the owner, which is unlocked for that time. It sends the
// statements itself: the program mariadb would also act on commands in the text of
// routines.
func (m *mariadb) after(ctx context.Context, i *instance, open opener, limit time.Duration) (missing dump.Lost,
	err error) {
	r, err := open()
	if err != nil {
		return missing, err
	}
	defer r.Close()
	err = m.alone(ctx, i, func(m *mariadb) error {
		// Data of more than half of the usual limit is too long when written in hexadecimal.
		if err := m.exec(ctx, fmt.Sprintf("SET GLOBAL max_allowed_packet = %d", dump.MaxPacket)); err != nil {
			return err
		}
		return m.asOwner(ctx, i, func(conn *sql.Conn) error {
			missing, err = load(ctx, conn, i, dump.NewScript(r), limit)
			return err
		})
	})
	return missing, err
}

// asOwner calls f with a connection of the instance's owner, which has all rights on the
// database meanwhile, even if the instance is over its size.
func (m *mariadb) asOwner(ctx context.Context, i *instance, f func(*sql.Conn) error) (err error) {
	password, owner := newNonce(), account(i.owner())
	set := func(password, lock string) string {
		return "ALTER USER " + owner + " IDENTIFIED VIA mysql_native_password USING '" + native(password) +
			"' ACCOUNT " + lock
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, m.exec(ctx, set(newNonce(), "LOCK"), "KILL USER "+owner), m.grant(ctx, i, i.owner()))
	}()
	if err := m.exec(ctx, "GRANT "+allRights+" ON `"+i.database()+"`.* TO "+owner, set(password, "UNLOCK")); err != nil {
		return err
	}
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr, c.DBName = i.owner(), password, "tcp", m.at.String(), i.database()
	c.Timeout, c.Logger, c.MaxAllowedPacket = idleTime, silent{}, dump.MaxPacket
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn)
}

// load executes the statements of a dump. It continues after those that the server refuses,
// and ends when the connection does, which can be the tenant's doing: other instances still
// have to be restored. The caller has another connection and notices whether the server
// still works.
func load(ctx context.Context, conn *sql.Conn, i *instance, from *dump.Script, limit time.Duration) (missing dump.Lost,
	err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		statement, err := from.Next()
		if errors.Is(err, io.EOF) {
			return missing, nil
		}
		if errors.Is(err, dump.ErrLongStatement) {
			missing.Add("what follows", err.Error())
			return missing, nil
		}
		if err != nil {
			return missing, err
		}
		statement = dump.Redefined(statement, i.owner())
		_, err = conn.ExecContext(limited, statement)
		var refused *mysql.MySQLError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return missing, ctx.Err()
		case limited.Err() != nil: // its connection is ended by the caller
			missing.Add("what follows "+dump.Described(statement), tooSlow(limit))
			return missing, nil
		case errors.As(err, &refused):
			missing.Add(dump.Described(statement), refused.Error())
		default:
			missing.Add("what follows "+dump.Described(statement), err.Error())
			return missing, nil
		}
	}
}
