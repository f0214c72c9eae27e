package broker

import (
	"context"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
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

func TestPostgresSmoke(t *testing.T) {
	t.Parallel()
	b := started(t, Config{})
	c := clientOf(t, b)
	id := c.made(Postgres, "small")
	bid, got := c.bound(Postgres, id)
	conn := pg(t, got)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE t (n int); INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	c.do(http.StatusOK, http.MethodDelete, bindingPath(id, bid)+query(Postgres, "small"), nil)
	if _, err := pgx.Connect(t.Context(), got.URI); err == nil {
		t.Error("still there")
	}
	c.do(http.StatusOK, http.MethodDelete, "/v2/service_instances/"+id+query(Postgres, "small"), nil)
	c.do(http.StatusGone, http.MethodDelete, "/v2/service_instances/"+id+query(Postgres, "small"), nil)

	id = c.made(MySQL, "small")
	_, got = c.bound(MySQL, id)
	t.Log(got)
	c.do(http.StatusOK, http.MethodDelete, "/v2/service_instances/"+id+query(MySQL, "small"), nil)
	id = c.made(Redis, "small")
	_, got = c.bound(Redis, id)
	t.Log(got)
	c.do(http.StatusOK, http.MethodDelete, "/v2/service_instances/"+id+query(Redis, "small"), nil)
}
