package broker

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"ingot/internal/base/testkit"
)

func pg(t testing.TB, c creds) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), c.URI)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) }) //nolint:errcheck // may have been ended by the server
	return conn
}

func mustExec(t testing.TB, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := conn.Exec(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func (c *client) unbind(name, instanceID, id string) {
	c.t.Helper()
	c.do(http.StatusOK, http.MethodDelete, bindingPath(instanceID, id)+query(name, "small"), nil)
}

func (c *client) deprovision(name, planName, id string) {
	c.t.Helper()
	c.do(http.StatusOK, http.MethodDelete, "/v2/service_instances/"+id+query(name, planName), nil)
}

func TestPostgresBindingsShareWhatTheyMake(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, Postgres)
	c := clientOf(t, b)
	id := c.made(Postgres, "small")
	firstID, first := c.bound(Postgres, id)
	secondID, second := c.bound(Postgres, id)
	if first.Username == second.Username || first.Password == second.Password || first.Database != second.Database {
		t.Errorf("two bindings: %s, %s", first.Username, second.Username)
	}
	one, two := pg(t, first), pg(t, second)
	mustExec(t, one, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (1)", "CREATE SCHEMA s",
		"CREATE TABLE s.u (n serial)")
	// Also under its own name, not as the owner.
	mustExec(t, one, "RESET ROLE", "SET ROLE NONE", "CREATE TABLE mine (n int)", "INSERT INTO mine VALUES (2)")
	mustExec(t, two, "INSERT INTO t VALUES (2)", "ALTER TABLE t ADD COLUMN m int", "DROP TABLE s.u")
	c.unbind(Postgres, id, firstID)
	if _, err := pgx.Connect(t.Context(), first.URI); err == nil {
		t.Error("the user of a binding that was removed can log in")
	}
	if err := one.Ping(t.Context()); err == nil {
		t.Error("a connection of a binding that was removed lives on")
	}
	var rows int
	if err := two.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM mine)").
		Scan(&rows); err != nil || rows != 3 {
		t.Errorf("%d rows, %v; want 3", rows, err)
	}
	mustExec(t, two, "ALTER TABLE mine ADD COLUMN m int")
	// The same id used again is a new binding.
	again := readCreds(t, c.do(http.StatusCreated, http.MethodPut, bindingPath(id, firstID),
		bindBody(Postgres, "small", "app")))
	if again.Password == first.Password {
		t.Error("a new binding has the old password")
	}
	mustExec(t, pg(t, again), "INSERT INTO mine VALUES (3)")
	c.unbind(Postgres, id, secondID)
	c.deprovision(Postgres, "small", id)
	if _, err := pgx.Connect(t.Context(), again.URI); err == nil {
		t.Error("the user of an instance that was removed can log in")
	}
}

func TestPostgresKeepsInstancesApart(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, Postgres)
	c := clientOf(t, b)
	id, other := c.made(Postgres, "small"), c.made(Postgres, "small")
	_, mine := c.bound(Postgres, id)
	_, theirs := c.bound(Postgres, other)
	conn := pg(t, mine)
	mustExec(t, pg(t, theirs), "CREATE TABLE secrets (n int)")
	for _, database := range []string{theirs.Database, "postgres", "template1", "template0"} {
		foreign := strings.Replace(mine.URI, "/"+mine.Database, "/"+database, 1)
		if _, err := pgx.Connect(t.Context(), foreign); err == nil {
			t.Errorf("connects to %s", database)
		}
	}
	for _, forbidden := range []string{
		"SELECT rolpassword FROM pg_authid", "SELECT * FROM pg_shadow", "COPY (SELECT 1) TO PROGRAM 'true'",
		"COPY (SELECT 1) TO '/tmp/ingot-forbidden'",
		"SELECT pg_read_file('postgresql.conf')", "SELECT pg_ls_dir('.')", "SELECT lo_import('/etc/passwd')",
		"CREATE ROLE more", "CREATE DATABASE more", "ALTER ROLE " + mine.Username + " CONNECTION LIMIT -1",
		"ALTER ROLE " + mine.Username + " SUPERUSER",
		"ALTER DATABASE " + mine.Database + " CONNECTION LIMIT 1000", "GRANT CONNECT ON DATABASE " + theirs.Database +
			" TO " + mine.Username,
		"SET ROLE " + adminUser, "SET ROLE " + strings.Replace(theirs.Database, "db", "own", 1),
		"ALTER SYSTEM SET fsync = off",
		"CREATE EXTENSION file_fdw", "CREATE FUNCTION f() RETURNS int LANGUAGE c AS 'x'",
		"DROP DATABASE " + theirs.Database, "DROP ROLE " + theirs.Username,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + adminUser + "'",
	} {
		mustExec(t, conn, "RESET ROLE")
		tag, err := conn.Exec(t.Context(), forbidden)
		if err == nil && !strings.Contains(forbidden, "pg_terminate_backend") {
			t.Errorf("may: %s (%s)", forbidden, tag)
		}
		mustExec(t, conn, "SET ROLE NONE")
		if _, err := conn.Exec(t.Context(), forbidden); err == nil && !strings.Contains(forbidden, "pg_terminate_backend") &&
			!strings.HasPrefix(forbidden, "GRANT CONNECT") {
			t.Errorf("may, as itself: %s", forbidden)
		}
	}
	if _, err := pgx.Connect(t.Context(), strings.Replace(mine.URI, "/"+mine.Database, "/"+theirs.Database,
		1)); err == nil {
		t.Error("connects to the other database after all")
	}
	// The connection limit is the plan's.
	connect := func() bool {
		conn, err := pgx.Connect(t.Context(), mine.URI)
		if err == nil {
			t.Cleanup(func() { conn.Close(context.Background()) }) //nolint:errcheck // ended by the server
		}
		return err == nil
	}
	for range 19 { // plus the one above
		// The server may be at work in it for a moment, too, and counts itself.
		testkit.Eventually(t, "another connection", connect)
	}
	if connect() {
		t.Error("there are more than 20 connections")
	}
	for _, secret := range []string{mine.Password, theirs.Password, b.Password(), b.secret.password("admin", Postgres)} {
		if strings.Contains(shared.log.String(), secret) {
			t.Error("a password is in the log")
		}
	}
	c.deprovision(Postgres, "small", id)
	c.deprovision(Postgres, "small", other)
}

func TestPostgresPlansAndParameters(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, Postgres)
	c := clientOf(t, b)
	id := uuid.NewString()
	path := "/v2/service_instances/" + id
	body := instanceBody(Postgres, "small")
	for _, bad := range []any{map[string]any{"size": 5}, map[string]any{"extensions": "pgcrypto"},
		map[string]any{"extensions": []string{"file_fdw"}}} {
		body["parameters"] = bad
		c.do(http.StatusBadRequest, http.MethodPut, path, body)
	}
	body["parameters"] = map[string]any{"extensions": []string{"pgcrypto", "uuid-ossp"}}
	c.do(http.StatusCreated, http.MethodPut, path, body)
	c.do(http.StatusOK, http.MethodPut, path, body)
	if got := c.do(http.StatusOK, http.MethodGet, path, nil); got["parameters"] == nil {
		t.Errorf("no parameters: %v", got)
	}
	_, got := c.bound(Postgres, id)
	conn := pg(t, got)
	mustExec(t, conn, "SELECT gen_random_bytes(4), uuid_generate_v4()")

	service, large := ids(Postgres, "large")
	c.do(http.StatusOK, http.MethodPatch, path, map[string]any{"service_id": service, "plan_id": large})
	var limit int
	if err := pg(t, got).QueryRow(t.Context(), "SELECT datconnlimit FROM pg_database WHERE datname = current_database()").
		Scan(&limit); err != nil || limit != 100 {
		t.Errorf("limit %d, %v; want 100", limit, err)
	}
	c.do(http.StatusBadRequest, http.MethodDelete, path+query(Postgres, "small"), nil)
	c.deprovision(Postgres, "large", id)
}

func TestPostgresSize(t *testing.T) {
	t.Parallel()
	b := started(t, Config{Without: []string{MySQL, Redis}, limit: func(*instance) int64 { return 16 * mib }})
	need(t, b, Postgres)
	c := clientOf(t, b)
	id := c.made(Postgres, "small")
	_, got := c.bound(Postgres, id)
	conn := pg(t, got)
	mustExec(t, conn, "CREATE TABLE t (s text)")
	// It may be noticed before the statement has ended.
	_, _ = conn.Exec(t.Context(), "INSERT INTO t SELECT repeat(md5(n::text), 8) FROM generate_series(1, 60000) n")
	checkSizes(t, b)
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("a connection from before may write on")
	}
	conn = pg(t, got)
	if _, err := conn.Exec(t.Context(), "INSERT INTO t VALUES ('more')"); err == nil {
		t.Error("an instance over its size may be written to")
	}
	mustExec(t, conn, "SELECT count(*) FROM t", "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "TRUNCATE t")
	checkSizes(t, b)
	mustExec(t, pg(t, got), "INSERT INTO t VALUES ('more')")
	c.deprovision(Postgres, "small", id)
}

// A killed server restarts with all committed data. So does a broker.
func TestPostgresComesBack(t *testing.T) {
	t.Parallel()
	config := Config{Dir: tempDir(t), Keys: testKeys(t), Without: []string{MySQL, Redis}}
	b := started(t, config)
	need(t, b, Postgres)
	c := clientOf(t, b)
	id := uuid.NewString()
	// The first instance starts the server, which takes long enough to ask.
	answer := c.do(http.StatusAccepted, http.MethodPut, "/v2/service_instances/"+id+"?accepts_incomplete=true",
		instanceBody(Postgres, "small"))
	if answer["operation"] == nil {
		t.Errorf("no operation: %v", answer)
	}
	testkit.Eventually(t, "the instance is ready", func() bool {
		return c.do(http.StatusOK, http.MethodGet, "/v2/service_instances/"+id+"/last_operation", nil)["state"] == "succeeded"
	})
	bid, got := c.bound(Postgres, id)
	mustExec(t, pg(t, got), "CREATE TABLE t (n int)", "INSERT INTO t VALUES (1)")
	server := ownDB[*postgres](t, b, id).daemon
	for range 2 {
		testkit.Eventually(t, "the server is known to run", server.Up)
		kill(t, server.PID())
		testkit.Eventually(t, "the row is back", func() bool {
			conn, err := pgx.Connect(t.Context(), got.URI)
			if err != nil {
				return false
			}
			defer conn.Close(context.Background())
			var n int
			return conn.QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n) == nil && n == 1
		})
	}
	b.Stop()
	if _, err := pgx.Connect(t.Context(), got.URI); err == nil {
		t.Error("the server outlives the broker")
	}
	again := started(t, config)
	if again.Password() != b.Password() {
		t.Error("the broker's password is another")
	}
	c = clientOf(t, again)
	same := readCreds(t, c.do(http.StatusOK, http.MethodPut, bindingPath(id, bid),
		bindBody(Postgres, "small", "app-"+bid)))
	if same != got {
		t.Errorf("credentials were %v and are %v", got, same)
	}
	testkit.Eventually(t, "the server runs without being asked", func() bool {
		conn, err := pgx.Connect(t.Context(), got.URI)
		if err == nil {
			conn.Close(context.Background())
		}
		return err == nil
	})
	c.deprovision(Postgres, "small", id)
}

// Another broker uses the server of the shared one as an external server.
func TestPostgresByURL(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, Postgres)
	c := clientOf(t, b)
	// A user that is not a superuser, as in a hosted database.
	id := c.made(Postgres, "small")
	p := ownDB[*postgres](t, b, id)
	if err := p.exec(t.Context(), "CREATE ROLE provider LOGIN CREATEDB CREATEROLE PASSWORD 'pw'",
		"GRANT CONNECT ON DATABASE postgres TO provider"); err != nil {
		t.Fatal(err)
	}
	other := started(t, Config{PostgresURL: "postgres://provider:pw@" + p.at.String() + "/postgres?sslmode=disable",
		Without: []string{MySQL, Redis}})
	oc := clientOf(t, other)
	mine := oc.made(Postgres, "small")
	bid, got := oc.bound(Postgres, mine)
	mustExec(t, pg(t, got), "CREATE TABLE t (n int)", "SET ROLE NONE", "CREATE TABLE own (n int)")
	oc.unbind(Postgres, mine, bid)
	_, got = oc.bound(Postgres, mine)
	mustExec(t, pg(t, got), "INSERT INTO own VALUES (1)")
	oc.deprovision(Postgres, "small", mine)
	if err := p.exec(t.Context(), "REVOKE CONNECT ON DATABASE postgres FROM provider", "DROP ROLE provider"); err != nil {
		t.Error(err)
	}
	c.deprovision(Postgres, "small", id)
	if _, err := New(Config{Dir: tempDir(t), Keys: testKeys(t), PostgresURL: "postgres://u:hush@h:x/"}); err == nil ||
		strings.Contains(err.Error(), "hush") {
		t.Errorf("a bad URL: %v", err)
	}
}
