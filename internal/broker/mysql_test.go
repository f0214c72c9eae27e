package broker

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
)

func my(t testing.TB, c creds) *sql.DB {
	t.Helper()
	db := myOpen(t, c, c.Database)
	if err := db.PingContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	return db
}

func myOpen(t testing.TB, c creds, database string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)/%s", c.Username, c.Password, c.address(), database))
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func mustRun(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func TestMySQLBindingsShareWhatTheyMake(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, MySQL)
	c := clientOf(t, b)
	id := c.made(MySQL, "small")
	firstID, first := c.bound(MySQL, id)
	_, second := c.bound(MySQL, id)
	one, two := my(t, first), my(t, second)
	mustRun(t, one, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (1)", "CREATE TABLE log (n int)",
		"CREATE VIEW v AS SELECT n + 1 AS m FROM t",
		"CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW INSERT INTO log VALUES (NEW.n)",
		"CREATE FUNCTION f() RETURNS int DETERMINISTIC RETURN (SELECT COUNT(*) FROM t)",
		"CREATE PROCEDURE p() INSERT INTO t VALUES (7)",
		"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM log")
	mustRun(t, two, "INSERT INTO t VALUES (2)", "ALTER TABLE t ADD COLUMN m int DEFAULT 0")
	c.unbind(MySQL, id, firstID)
	if err := myOpen(t, first, first.Database).PingContext(t.Context()); err == nil {
		t.Error("the user of a binding that was removed can log in")
	}
	mustRun(t, two, "INSERT INTO t (n) VALUES (3)", "DROP PROCEDURE p")
	var view, called, logged int
	if err := two.QueryRowContext(t.Context(), "SELECT (SELECT MAX(m) FROM v), f(), (SELECT COUNT(*) FROM log)").
		Scan(&view, &called, &logged); err != nil || view != 4 || called != 3 || logged != 2 {
		t.Errorf("view %d, function %d, trigger %d, %v", view, called, logged, err)
	}
	c.deprovision(MySQL, "small", id)
	if err := myOpen(t, second, second.Database).PingContext(t.Context()); err == nil {
		t.Error("the user of an instance that was removed can log in")
	}
}

// TestMySQLTemporaryTables: the server's temporary files are in its own folder. Servers delete
// those that they find when they start, also of other servers.
func TestMySQLTemporaryTables(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	b := started(t, Config{Dir: dir, Keys: testKeys(t), Without: []string{Postgres, Redis}})
	need(t, b, MySQL)
	c := clientOf(t, b)
	id := c.made(MySQL, "small")
	_, credentials := c.bound(MySQL, id)
	var at string
	if err := my(t, credentials).QueryRowContext(t.Context(), "SELECT @@tmpdir").Scan(&at); err != nil ||
		at != filepath.Join(dir, own, b.state.get(id).hash(), "tmp") {
		t.Errorf("temporary files are in %q, %v", at, err)
	}
}

func TestMySQLKeepsInstancesApart(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, MySQL)
	c := clientOf(t, b)
	id, other := c.made(MySQL, "small"), c.made(MySQL, "small")
	_, mine := c.bound(MySQL, id)
	_, theirs := c.bound(MySQL, other)
	mustRun(t, my(t, theirs), "CREATE TABLE secrets (n int)")
	for _, database := range []string{theirs.Database, "mysql", "sys"} {
		if err := myOpen(t, mine, database).PingContext(t.Context()); err == nil {
			t.Errorf("connects to %s", database)
		}
	}
	db := my(t, mine)
	for _, forbidden := range []string{
		"SELECT * FROM " + theirs.Database + ".secrets", "SELECT authentication_string FROM mysql.user",
		"SELECT * FROM mysql.global_priv",
		"SELECT 1 INTO OUTFILE '/tmp/ingot-forbidden'", "LOAD DATA INFILE '/etc/passwd' INTO TABLE x", "CREATE USER more",
		"CREATE DATABASE more",
		"GRANT ALL ON *.* TO CURRENT_USER", "GRANT SELECT ON " + mine.Database + ".* TO '" + theirs.Username + "'@'%'",
		"SET GLOBAL max_connections = 1", "INSTALL SONAME 'x'", "DROP USER '" + theirs.Username + "'@'%'", "SHUTDOWN",
		"SHOW ENGINE INNODB STATUS",
	} {
		if _, err := db.ExecContext(t.Context(), forbidden); err == nil {
			t.Errorf("may: %s", forbidden)
		}
	}
	var content sql.NullString
	if err := db.QueryRowContext(t.Context(), "SELECT LOAD_FILE('/etc/passwd')").Scan(&content); err == nil &&
		content.Valid {
		t.Error("reads files")
	}
	var names int
	if err := db.QueryRowContext(t.Context(),
		"SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE 'db%'").Scan(&names); err != nil ||
		names != 1 {
		t.Errorf("sees %d databases, %v", names, err)
	}
	var open int
	for range 25 {
		if myOpen(t, mine, mine.Database).PingContext(t.Context()) != nil {
			break
		}
		open++
	}
	if open != 19 {
		t.Errorf("%d more connections, want 19", open)
	}
	if strings.Contains(shared.log.String(), mine.Password) {
		t.Error("a password is in the log")
	}
	c.deprovision(MySQL, "small", id)
	c.deprovision(MySQL, "small", other)
}

func TestMySQLSize(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, MySQL)
	c := clientOf(t, b)
	id := c.made(MySQL, "small")
	bid, got := c.bound(MySQL, id)
	db := my(t, got)
	mustRun(t, db, "CREATE TABLE t (s text)", "INSERT INTO t VALUES ('x')")
	s := b.backends[MySQL][0]
	i := b.state.get(id)
	if size, err := s.size(t.Context(), i); err != nil || size == 0 {
		t.Errorf("size %d, %v", size, err)
	}
	for _, over := range []bool{true, true, false} {
		i.Over = over
		if err := s.resize(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		db := my(t, got)
		if _, err := db.ExecContext(t.Context(), "INSERT INTO t VALUES ('more')"); (err == nil) == over {
			t.Errorf("over %v: %v", over, err)
		}
		mustRun(t, db, "DELETE FROM t")
	}
	c.unbind(MySQL, id, bid)
	c.deprovision(MySQL, "small", id)
}

func TestMySQLByURL(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, MySQL)
	id := clientOf(t, b).made(MySQL, "small")
	m := ownDB[*mariadb](t, b, id)
	if err := m.exec(t.Context(), "CREATE USER provider@localhost IDENTIFIED BY 'pw'",
		"GRANT ALL ON *.* TO provider@localhost WITH GRANT OPTION"); err != nil {
		t.Fatal(err)
	}
	other := started(t, Config{MySQLURL: "mysql://provider:pw@" + m.at.String(), Without: []string{Postgres, Redis}})
	c := clientOf(t, other)
	mine := c.made(MySQL, "small")
	bid, got := c.bound(MySQL, mine)
	mustRun(t, my(t, got), "CREATE TABLE t (n int)")
	c.unbind(MySQL, mine, bid)
	c.deprovision(MySQL, "small", mine)
	if err := m.exec(t.Context(), "DROP USER provider@localhost"); err != nil {
		t.Error(err)
	}
	clientOf(t, b).deprovision(MySQL, "small", id)
	for _, bad := range []string{"mysql://", "postgres://u:hush@h", "mysql://u:hush@h:x", "h:3306"} {
		if _, err := New(Config{Dir: tempDir(t), Keys: testKeys(t), MySQLURL: bad}); err == nil ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("address %s: error is %v, want one without the password", bad, err)
		}
	}
}
