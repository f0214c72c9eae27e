package broker

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// writableDir returns a directory in which every user can create files.
func writableDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(tempDir(t), "open")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // the servers' users write there
		t.Fatal(err)
	}
	return dir
}

// TestRestoreOfHostilePostgres restores databases whose functions try to use the rights
// of the user that restores them.
func TestRestoreOfHostilePostgres(t *testing.T) {
	t.Parallel()
	keys, dir := testKeys(t), tempDir(t)
	b := started(t, Config{Dir: dir, Keys: keys, Without: []string{MySQL, Redis}})
	need(t, b, Postgres)
	c := clientOf(t, b)
	_, evil := c.bound(Postgres, c.made(Postgres, "small"))
	_, rude := c.bound(Postgres, c.made(Postgres, "small"))
	proof := filepath.Join(writableDir(t), "proof")
	// Each attempt fails alone, so that the row is accepted.
	var attempts strings.Builder
	for _, s := range []string{"RESET ROLE", "SET ROLE " + adminUser, "RESET SESSION AUTHORIZATION",
		"ALTER ROLE " + evil.Username + " SUPERUSER", "COPY (SELECT 1) TO PROGRAM 'touch " + proof + "'"} {
		attempts.WriteString("BEGIN EXECUTE '" + strings.ReplaceAll(s, "'", "''") +
			"'; EXCEPTION WHEN OTHERS THEN NULL; END; ")
	}
	mustExec(t, pg(t, evil),
		"CREATE FUNCTION f(x int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "+attempts.String()+" RETURN true; END $$",
		"CREATE TABLE t (x int CHECK (f(x)))", "INSERT INTO t VALUES (1)",
		"CREATE MATERIALIZED VIEW m AS SELECT f(1) AS x")
	// It ends the connection that loads it.
	mustExec(t, pg(t, rude), "CREATE TABLE a (x int)", "INSERT INTO a VALUES (1)",
		"CREATE FUNCTION f() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN IF current_setting('application_name') = "+
			"'pg_restore' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN true; END $$",
		"CREATE TABLE t (x int CHECK (f()))", "INSERT INTO t VALUES (1)")

	_, saved := savedData(t, dir, keys)
	b.Stop()
	_, done := restoredBroker(t, dir, keys, saved)
	if _, err := os.Stat(proof); err == nil {
		t.Error("a tenant's function ran a program while it was restored")
	}
	if done.Instances != 2 {
		t.Errorf("restored %+v, want 2 instances", done)
	}
	if got := strings.Join(done.Lost, "\n"); !strings.Contains(got, "terminat") {
		t.Errorf("the restore does not report the connection that was ended: %q", got)
	}
	var super, temporary bool
	conn := pg(t, evil)
	if err := conn.QueryRow(t.Context(),
		"SELECT bool_or(rolsuper AND rolname <> $1), bool_or(rolname LIKE 'tmp%') FROM pg_roles",
		adminUser).Scan(&super, &temporary); err != nil || super || temporary {
		t.Errorf("superuser: %v, temporary user: %v, %v", super, temporary, err)
	}
	var rows int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM t, m").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v; want 1", rows, err)
	}
	// Also what was made after RESET ROLE belongs to the owner.
	mustExec(t, conn, "ALTER TABLE t ADD COLUMN y int", "DROP MATERIALIZED VIEW m")
	if err := pg(t, rude).QueryRow(t.Context(), "SELECT x FROM a").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("got %d, %v: what was loaded before the connection ended", rows, err)
	}
}

// TestRestoreWithoutEnd restores databases whose loading does not end: what was loaded before is
// there, and so are the other instances.
func TestRestoreWithoutEnd(t *testing.T) {
	t.Parallel()
	keys, dir := testKeys(t), tempDir(t)
	b := started(t, Config{Dir: dir, Keys: keys, Without: []string{Redis}})
	need(t, b, Postgres)
	need(t, b, MySQL)
	c := clientOf(t, b)
	_, endless := c.bound(Postgres, c.made(Postgres, "small"))
	mustExec(t, pg(t, endless), "CREATE TABLE a (x int)", "INSERT INTO a VALUES (1)",
		"CREATE FUNCTION f() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN WHILE current_setting('application_name') = "+
			"'pg_restore' LOOP PERFORM pg_sleep(60); END LOOP; RETURN true; END $$",
		"CREATE TABLE t (x int CHECK (f()))", "INSERT INTO t VALUES (1)")
	slow := c.made(MySQL, "small")
	_, after := c.bound(MySQL, slow)
	_, saved := savedData(t, dir, keys)
	// No function is called when a dump of this kind is loaded; what takes its time is the rest.
	saved[dumpName(b.state.get(slow))] = []byte("CREATE TABLE a (x int);\nDO SLEEP(1000000);\nCREATE TABLE z (x int);\n")
	b.Stop()
	_, done := restoredWithin(t, 15*time.Second, dir, keys, saved)
	if got := strings.Join(done.Lost, "\n"); done.Instances != 2 ||
		strings.Count(got, "loading took longer than 15s") != 2 {
		t.Errorf("restored %+v, want 2 instances that took too long", done)
	}
	var rows int
	if err := pg(t, endless).QueryRow(t.Context(), "SELECT count(*) FROM a").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v: what was loaded before the limit", rows, err)
	}
	if err := my(t, after).QueryRowContext(t.Context(), "SELECT count(*) FROM a").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows, %v: what was loaded before the limit", rows, err)
	}
}

// TestRestorePostgres restores all kinds of objects, which the users of bindings own as before.
func TestRestorePostgres(t *testing.T) {
	t.Parallel()
	keys, dir := testKeys(t), tempDir(t)
	b := started(t, Config{Dir: dir, Keys: keys, Without: []string{MySQL, Redis}})
	need(t, b, Postgres)
	c := clientOf(t, b)
	id := uuid.NewString()
	body := instanceBody(Postgres, "small")
	body["parameters"] = map[string]any{"extensions": []string{"pgcrypto", "uuid-ossp"}}
	c.do(http.StatusCreated, http.MethodPut, "/v2/service_instances/"+id, body)
	_, first := c.bound(Postgres, id)
	_, second := c.bound(Postgres, id)
	conn := pg(t, first)
	mustExec(t, conn, "CREATE SCHEMA s", "CREATE TYPE s.mood AS ENUM ('calm', 'wild')", "CREATE EXTENSION hstore SCHEMA s",
		"CREATE TABLE t (id serial PRIMARY KEY, u uuid DEFAULT uuid_generate_v4(), h s.hstore, mood s.mood DEFAULT 'calm', "+
			"n int CHECK (n > 0))",
		"CREATE TABLE log (id int REFERENCES t, at int)", "CREATE INDEX ON t (n)", "COMMENT ON TABLE t IS 'it''s'",
		"CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.log VALUES (NEW.id, "+
			"NEW.n); RETURN NEW; END $$",
		"CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION noted()",
		"INSERT INTO t (h, n) VALUES ('a=>1', 7)", "CREATE VIEW v AS SELECT n, h FROM t",
		"CREATE MATERIALIZED VIEW m AS SELECT sum(n) AS n FROM t",
		"CREATE FUNCTION f() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM public.t'",
		"CREATE SEQUENCE sq START 40", "SELECT nextval('sq')", "SELECT lo_from_bytea(4711, 'large')",
		"ALTER TABLE log ENABLE ROW LEVEL SECURITY", "ALTER TABLE log FORCE ROW LEVEL SECURITY",
		"CREATE POLICY p ON log USING (at > 0)",
		"ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO "+second.Username, "GRANT SELECT ON t TO "+second.Username,
		"RESET ROLE", "SET ROLE NONE", "CREATE TABLE mine (n int)", "INSERT INTO mine VALUES (3)")
	// What only an administrator can create is not restored.
	p := ownDB[*postgres](t, b, id)
	if as := p.program(t.Context(), nil, "pg_restore").SysProcAttr.Credential; os.Geteuid() == 0 &&
		(as == nil || as.Uid == 0) {
		t.Errorf("PostgreSQL's programs run as %v", as)
	}
	err := p.inside(t.Context(), b.state.get(id), func(conn *pgx.Conn) error {
		return inTx(t.Context(), conn, "CREATE EXTENSION pg_stat_statements")
	})
	if err != nil {
		t.Fatal(err)
	}
	_, saved := savedData(t, dir, keys)
	b.Stop()
	_, done := restoredBroker(t, dir, keys, saved)
	if len(done.Lost) == 0 || strings.Count(strings.Join(done.Lost, "\n"), "pg_stat_statements") < len(done.Lost) ||
		!strings.Contains(done.Lost[0], id) {
		t.Errorf("not restored: %q, want only the extension pg_stat_statements", done.Lost)
	}
	for _, conn := range []*pgx.Conn{pg(t, first), pg(t, second)} {
		mustExec(t, conn, "INSERT INTO t (h, n) VALUES ('b=>2', 5)", "REFRESH MATERIALIZED VIEW m")
	}
	conn = pg(t, second)
	var logged, counted, sum, next, large, large2 int
	if err := conn.QueryRow(t.Context(),
		"SELECT (SELECT count(*) FROM log), f(), (SELECT n FROM m), nextval('sq'), length(lo_get(4711)), (SELECT sum(n) "+
			"FROM mine)").
		Scan(&logged, &counted, &sum, &next, &large, &large2); err != nil || logged != 3 || counted != 3 || sum != 17 ||
		next != 41 || large != 5 || large2 != 3 {
		t.Errorf("trigger %d, function %d, view %d, sequence %d, large object %d, own table %d, %v", logged, counted, sum,
			next, large, large2, err)
	}
	mustExec(t, conn, "ALTER TABLE t ADD COLUMN more int", "ALTER TABLE mine ADD COLUMN more int",
		"ALTER SEQUENCE sq RESTART", "CREATE OR REPLACE VIEW v AS SELECT n, h, more FROM t",
		"DROP MATERIALIZED VIEW m", "DROP TRIGGER tr ON t", "DROP FUNCTION f()", "ALTER TYPE s.mood ADD VALUE 'mild'",
		"DROP SCHEMA s CASCADE", "SELECT lo_unlink(4711)", "SELECT gen_random_bytes(4)")
}

// TestRestoreOfHostileMySQL restores a database whose routines contain what programs that
// load a dump take for statements.
func TestRestoreOfHostileMySQL(t *testing.T) {
	t.Parallel()
	keys, dir := testKeys(t), tempDir(t)
	b := started(t, Config{Dir: dir, Keys: keys, Without: []string{Postgres, Redis}})
	need(t, b, MySQL)
	c := clientOf(t, b)
	evilID, rudeID := c.made(MySQL, "small"), c.made(MySQL, "small")
	_, evil := c.bound(MySQL, evilID)
	_, rude := c.bound(MySQL, rudeID)
	proof := filepath.Join(writableDir(t), "proof")
	more := "GRANT ALL PRIVILEGES ON *.* TO " + evil.Username
	db := my(t, evil)
	mustRun(t, db,
		// What follows -- and a control character is a comment for the server, but not for the
		// program mariadb.
		"CREATE PROCEDURE p()\nSELECT 1 --\x01;; "+more+";; SELECT 2\n+ 1",
		"CREATE PROCEDURE q()\nSELECT 1 --\x01;; \\! touch "+proof+"\n+ 1",
		// For what reads the structure of a dump, the text ends in the string.
		"CREATE PROCEDURE r()\nBEGIN\nSELECT ';;\nDELIMITER ;\n"+more+";\n"+
			"CREATE DEFINER=`"+adminUser+"`@`127.0.0.1` PROCEDURE bad() UPDATE mysql.global_priv SET Priv = 0;\n';\nEND")
	mustRun(t, my(t, rude), "CREATE TABLE a (n int)", "INSERT INTO a VALUES (1)",
		"CREATE PROCEDURE p()\nBEGIN\nSELECT ';;\nDELIMITER ;\nKILL CONNECTION_ID();\n';\nEND")

	_, saved := savedData(t, dir, keys)
	for name, text := range saved { // older versions of the program do not know this line
		if first, rest, _ := bytes.Cut(text, []byte("\n")); bytes.HasPrefix(first, []byte(`/*M!999999\-`)) {
			saved[name] = rest
		}
	}
	b.Stop()
	b, done := restoredBroker(t, dir, keys, saved)
	if _, err := os.Stat(proof); err == nil {
		t.Error("a tenant's procedure ran a program while it was restored")
	}
	if got := strings.Join(done.Lost, "\n"); done.Instances != 2 || !strings.Contains(got, "GRANT ALL") {
		t.Errorf("restored %d instances, not restored %q", done.Instances, got)
	}
	for _, id := range []string{evilID, rudeID} {
		m := ownDB[*mariadb](t, b, id)
		var access, unlocked, definers, temporary int
		if err := m.admin.QueryRowContext(t.Context(),
			"SELECT (SELECT COUNT(*) FROM mysql.global_priv WHERE JSON_VALUE(Priv, '$.access') <> 0 AND User <> ?),"+
				"(SELECT COUNT(*) FROM mysql.global_priv WHERE User LIKE 'own%' AND NOT COALESCE(JSON_VALUE(Priv, "+
				"'$.account_locked'), 0)),"+
				"(SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema LIKE 'db%' AND definer NOT LIKE 'own%'),"+
				"(SELECT COUNT(*) FROM mysql.global_priv WHERE User LIKE 'tmp%')", adminUser).Scan(&access, &unlocked, &definers,
			&temporary); err != nil || access+unlocked+definers+temporary != 0 {
			t.Errorf("%d accounts with rights on all databases, %d owners that can log in, %d routines with other definers, "+
				"%d temporary accounts, %v", access, unlocked, definers, temporary, err)
		}
	}
	for _, c := range []creds{evil, rude} {
		if _, err := my(t, c).ExecContext(t.Context(), "SELECT * FROM mysql.global_priv"); err == nil {
			t.Error("the tenant reads the accounts of the server")
		}
	}
	mustRun(t, my(t, evil), "CALL p()", "CALL q()")
	var n int
	if err := my(t, rude).QueryRowContext(t.Context(), "SELECT n FROM a").Scan(&n); err != nil {
		t.Errorf("what was loaded before the connection ended: %v", err)
	}
}

// TestRestoreMySQL restores all kinds of objects of an instance that is over its size. The
// administrator does not read them.
func TestRestoreMySQL(t *testing.T) {
	t.Parallel()
	keys, dir := testKeys(t), tempDir(t)
	var over atomic.Bool
	b := started(t, Config{Dir: dir, Keys: keys, Without: []string{Postgres, Redis}, limit: func(*instance) int64 {
		if over.Load() {
			return -1
		}
		return gib
	}})
	need(t, b, MySQL)
	c := clientOf(t, b)
	id := c.made(MySQL, "small")
	firstID, first := c.bound(MySQL, id)
	_, second := c.bound(MySQL, id)
	blob := bytes.Repeat([]byte{0, '\'', '\\', 0xff}, 3<<20)
	db := my(t, first)
	mustRun(t, db, "CREATE TABLE t (n int PRIMARY KEY AUTO_INCREMENT, s varchar(20) DEFAULT 'a;\\nb', `odd\n;'name` "+
		"int, CHECK (s <> ';\\n')) COMMENT 'it''s;\\n'",
		"INSERT INTO t (s) VALUES (';\\n''--'), ('ü')", "CREATE TABLE log (n int)", "CREATE TABLE large (b longblob)",
		"CREATE VIEW v AS SELECT n, 'a;\n\\'b' AS x FROM t", "CREATE SEQUENCE sq", "DO NEXTVAL(sq)",
		"CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW BEGIN SET @x = ';;'; INSERT INTO log VALUES (NEW.n); END",
		"CREATE FUNCTION f() RETURNS int DETERMINISTIC BEGIN RETURN (SELECT COUNT(*) FROM t); END",
		"CREATE SQL SECURITY INVOKER VIEW w AS SELECT f() AS n",
		"CREATE SQL SECURITY INVOKER VIEW x AS SELECT NEXTVAL(sq) AS n",
		"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN DELETE FROM log; END",
		"CREATE EVENT e2 ON SCHEDULE EVERY 1 DAY DO DELETE FROM log",
		"SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
		"CREATE PROCEDURE p()\nBEGIN\n  -- it's\n  SELECT 'a\\' AS\ndelimiter ;\n  INSERT INTO \"t\" (s) VALUES ('p');\nEND")
	if _, err := db.ExecContext(t.Context(), "INSERT INTO large VALUES (?)", blob); err != nil {
		t.Fatal(err)
	}
	mustRun(t, my(t, second), "CREATE PROCEDURE other() SELECT 1")
	over.Store(true)
	checkSizes(t, b)
	i := b.state.get(id)
	if !i.Over {
		t.Fatal("it is not over its size")
	}
	m := ownDB[*mariadb](t, b, id)
	if err := m.exec(t.Context(), "SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = 1"); err != nil {
		t.Fatal(err)
	}
	_, saved := savedData(t, dir, keys)
	var others, reads int
	if err := m.admin.QueryRowContext(t.Context(),
		"SELECT COUNT(*), COALESCE(SUM(user_host LIKE ?), 0) FROM mysql.general_log WHERE argument LIKE 'SELECT /*!40001 "+
			"SQL_NO_CACHE%'", adminUser+"%").
		Scan(&others, &reads); err != nil || reads != 0 || others == 0 {
		t.Errorf("of %d tables, the administrator has read %d, %v", others, reads, err)
	}
	b.Stop()
	b, done := restoredBroker(t, dir, keys, saved)
	if len(done.Lost) != 0 {
		t.Errorf("not restored: %q", done.Lost)
	}
	if _, err := my(t, first).ExecContext(t.Context(), "INSERT INTO t (s) VALUES ('x')"); err == nil {
		t.Error("an instance over its size may be written to after it was restored")
	}
	i = b.state.get(id)
	i.Over = false
	if err := b.backends[MySQL][0].resize(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	clientOf(t, b).unbind(MySQL, id, firstID)
	db = my(t, second)
	mustRun(t, db, "INSERT INTO t (s) VALUES ('x')", "CALL p()", "CALL other()")
	var logged, called, through, next, views, events, size int
	var text string
	if err := db.QueryRowContext(t.Context(),
		"SELECT (SELECT COUNT(*) FROM log), f(), (SELECT n FROM w), (SELECT n FROM x), (SELECT COUNT(*) FROM v WHERE x = "+
			"'a;\n\\'b'),"+
			"(SELECT COUNT(*) FROM information_schema.events), (SELECT LENGTH(b) FROM large), (SELECT s FROM t WHERE n = 1)").
		Scan(&logged, &called, &through, &next, &views, &events, &size, &text); err != nil ||
		logged != 2 || called != 4 || through != 4 || next < 2 || views != 4 || events != 2 || size != len(blob) ||
		text != ";\n'--" {
		t.Errorf("trigger %d, function %d, view %d, sequence %d, view %d, events %d, blob %d, %q, %v", logged, called,
			through, next, views, events, size, text, err)
	}
	mustRun(t, db, "ALTER TABLE t ADD COLUMN more int", "CREATE OR REPLACE VIEW v AS SELECT more FROM t",
		"DROP TRIGGER tr", "DROP FUNCTION f", "DROP PROCEDURE p",
		"ALTER EVENT e DISABLE", "DROP EVENT e2", "DROP SEQUENCE sq")
}
