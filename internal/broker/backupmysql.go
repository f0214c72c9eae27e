package broker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"ingot/internal/base/daemon"
)

// maxPacket is the largest statement that any server accepts.
const maxPacket = 1 << 30

// dump runs as a temporary user with a tenant's rights. A tenant can replace a table by a
// view at the moment when mariadb-dump reads it, and a view can call functions with the
// rights of the reader. All rights on the database are needed, because mariadb-dump fails
// at a view that it may not use.
func (m *mariadb) dump(ctx context.Context, i *instance, w io.Writer) (missing lost, err error) {
	program, err := daemon.Program(mariadbDump)
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
		missing, err = dumped(daemon.Command(ctx, m.owner, "/", []string{"MYSQL_PWD=" + password}, program,
			"--no-defaults", "--protocol=tcp", "--host="+m.at.host, "--port="+strconv.Itoa(m.at.port), "--user="+name, "--default-character-set=utf8mb4",
			"--force", "--single-transaction", "--routines", "--triggers", "--events", "--hex-blob", "--skip-lock-tables", "--no-tablespaces", i.database()), w)
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
func (m *mariadb) after(ctx context.Context, i *instance, open opener, limit time.Duration) (missing lost, err error) {
	r, err := open()
	if err != nil {
		return missing, err
	}
	defer r.Close()
	err = m.alone(ctx, i, func(m *mariadb) error {
		// Data of more than half of the usual limit is too long when written in hexadecimal.
		if err := m.exec(ctx, fmt.Sprintf("SET GLOBAL max_allowed_packet = %d", maxPacket)); err != nil {
			return err
		}
		return m.asOwner(ctx, i, func(conn *sql.Conn) error {
			missing, err = load(ctx, conn, i, newScript(r), limit)
			return err
		})
	})
	return missing, err
}

// asOwner calls f with a connection of the instance's owner, who has all rights on the
// database for that time, also if the instance is over its size.
func (m *mariadb) asOwner(ctx context.Context, i *instance, f func(*sql.Conn) error) (err error) {
	password, owner := newNonce(), account(i.owner())
	set := func(password, lock string) string {
		return "ALTER USER " + owner + " IDENTIFIED VIA mysql_native_password USING '" + native(password) + "' ACCOUNT " + lock
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
	c.Timeout, c.Logger, c.MaxAllowedPacket = idleTime, silent{}, maxPacket
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

// load executes the statements of a dump. It goes on after those that the server refuses,
// and ends when the connection does, which can be the tenant's doing: other instances have
// to be restored all the same. Whether the server still works is noticed by the caller,
// who has a connection of its own.
func load(ctx context.Context, conn *sql.Conn, i *instance, from *script, limit time.Duration) (missing lost, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		statement, err := from.next()
		if errors.Is(err, io.EOF) {
			return missing, nil
		}
		if errors.Is(err, errLongStatement) {
			missing.add("what follows", err.Error())
			return missing, nil
		}
		if err != nil {
			return missing, err
		}
		statement = redefined(statement, i)
		_, err = conn.ExecContext(limited, statement)
		var refused *mysql.MySQLError
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return missing, ctx.Err()
		case limited.Err() != nil: // its connection is ended by the caller
			missing.add("what follows "+described(statement), tooSlow(limit))
			return missing, nil
		case errors.As(err, &refused):
			missing.add(described(statement), refused.Error())
		default:
			missing.add("what follows "+described(statement), err.Error())
			return missing, nil
		}
	}
}

// The definer in a statement that creates a view, a trigger, a routine or an event. Before
// it there are no names or texts: those begin with a quote.
var (
	definer       = regexp.MustCompile("^((?:/\\*M?!\\d+ )?CREATE\\b[^`'\"]*?\\bDEFINER=)" + quotedName + "(?:@" + quotedName + ")?")
	versionMark   = regexp.MustCompile(`/\*M?!\d+ ?|\*/`)
	quotedName    = "(?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*')"
	definerClause = regexp.MustCompile("DEFINER=[^ ]* ?")
)

// redefined makes the owner the definer of an object, as unbind does. Only a user with
// rights on the whole server may set another definer than itself.
func redefined(statement string, i *instance) string {
	at := definer.FindStringSubmatchIndex(statement)
	if at == nil {
		return statement
	}
	return statement[:at[3]] + "`" + i.owner() + "`@`%`" + statement[at[1]:]
}

// described names the object of a statement.
func described(statement string) string {
	const enough = 100
	text := definerClause.ReplaceAllLiteralString(versionMark.ReplaceAllLiteralString(statement[:min(len(statement), 4*enough)], ""), "")
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "")
	if short := []rune(text); len(short) > enough {
		return string(short[:enough]) + "…"
	}
	return text
}
