package broker

import (
	"context"
	"database/sql"
	"net/http"
	"slices"
	"testing"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/redis/go-redis/v9"
)

// succeeded makes a successor of a binding.
func (c *client) succeeded(name, instanceID, old string) (id string, got creds) {
	c.t.Helper()
	id = uuid.NewString()
	body := bindBody(name, "small", "app-"+old)
	body["predecessor_binding_id"] = old
	return id, readCreds(c.t, c.do(http.StatusCreated, http.MethodPut, bindingPath(instanceID, id), body))
}

func (c *client) unbound(name, instanceID, id string) {
	c.t.Helper()
	c.do(http.StatusOK, http.MethodDelete, bindingPath(instanceID, id)+query(name, "small"), nil)
}

// session is a connection with the credentials of a binding.
type session struct {
	exec  func(statement string) error
	close func()
}

// rotates rotates a binding while a session with the old credentials is open: what it made can
// be used with the new ones, both work until the old ones are revoked, and then only the new.
func rotates(t *testing.T, name string, open func(creds) (*session, error), make, use string) {
	t.Helper()
	b := sharedBroker(t)
	need(t, b, name)
	c := clientOf(t, b)
	i := c.made(name, "small")
	first, was := c.bound(name, i)
	old, err := open(was)
	if err != nil {
		t.Fatal(err)
	}
	defer old.close()
	if err := old.exec(make); err != nil {
		t.Fatal(err)
	}
	second, now := c.succeeded(name, i, first)
	if now.Username == was.Username || now.Password == was.Password || now.Database != was.Database {
		t.Errorf("the new credentials are %+v, the old ones %+v", now, was)
	}
	fresh, err := open(now)
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.close()
	for who, s := range map[string]*session{"old": old, "new": fresh} {
		if err := s.exec(use); err != nil {
			t.Errorf("%s credentials before the end: %v", who, err)
		}
	}
	c.unbound(name, i, first)
	if err := fresh.exec(use); err != nil {
		t.Errorf("new credentials after the old ones were revoked: %v", err)
	}
	if err := old.exec(use); err == nil {
		t.Error("a session with the old credentials goes on")
	}
	if again, err := open(was); err == nil {
		again.close()
		t.Error("the old credentials open another session")
	}
	c.unbound(name, i, second)
}

func openSQL(driver string, dsn func(creds) string) func(creds) (*session, error) {
	return func(c creds) (*session, error) {
		db, err := sql.Open(driver, dsn(c))
		if err != nil {
			return nil, err
		}
		conn, err := db.Conn(context.Background())
		if err != nil {
			db.Close()
			return nil, err
		}
		return &session{
			exec:  func(s string) error { _, err := conn.ExecContext(context.Background(), s); return err },
			close: func() { conn.Close(); db.Close() },
		}, nil
	}
}

func TestRotatePostgres(t *testing.T) {
	t.Parallel()
	rotates(t, Postgres, openSQL("pgx", func(c creds) string { return c.URI }), "CREATE TABLE notes (text TEXT)",
		"INSERT INTO notes VALUES ('x')")
}

func TestRotateMySQL(t *testing.T) {
	t.Parallel()
	rotates(t, MySQL, openSQL("mysql", func(c creds) string {
		return c.Username + ":" + c.Password + "@tcp(" +
			c.address() + ")/" + c.Database
	}),
		"CREATE TABLE notes (text VARCHAR(10))", "INSERT INTO notes VALUES ('x')")
}

func TestRotateRedis(t *testing.T) {
	t.Parallel()
	rotates(t, Redis, func(c creds) (*session, error) {
		r := redis.NewClient(&redis.Options{Addr: c.address(), Username: c.Username, Password: c.Password, MaxRetries: -1,
			PoolSize: 1, DisableIdentity: true})
		return &session{
			exec:  func(s string) error { return r.Incr(context.Background(), s).Err() },
			close: func() { r.Close() },
		}, r.Ping(context.Background()).Err()
	}, "notes", "notes")
}

// TestRotateNotifications sees that a successor has the same client with another secret.
func TestRotateNotifications(t *testing.T) {
	t.Parallel()
	made := newClients()
	c := clientOf(t, started(t, withNotifications(t, made)))
	body := bindBodyOf(0, "a")
	c.do(http.StatusCreated, http.MethodPut, "/v2/service_instances/mail", body)
	credentials := func(id, predecessor string) map[string]any {
		t.Helper()
		body := bindBodyOf(0, "a")
		if predecessor != "" {
			body["predecessor_binding_id"] = predecessor
		}
		return c.do(http.StatusCreated, http.MethodPut, bindingPath("mail", id), body)["credentials"].(map[string]any)
	}
	secrets := func() []string {
		made.mu.Lock()
		defer made.mu.Unlock()
		return slices.Clone(made.keys[made.idsLocked()[0]])
	}
	first, second := credentials("b1", ""), credentials("b2", "b1")
	if first["client_id"] != second["client_id"] || first["client_secret"] == second["client_secret"] {
		t.Errorf("got %v and %v, want one client with two secrets", first, second)
	}
	if got := secrets(); len(got) != 2 || got[0] != second["client_secret"] || got[1] != first["client_secret"] {
		t.Errorf("the client has %d secrets, want both", len(got))
	}
	third := credentials("b3", "b2")
	service, planID := body["service_id"].(string), body["plan_id"].(string)
	unbind := func(id string) {
		t.Helper()
		c.do(http.StatusOK, http.MethodDelete, bindingPath("mail", id)+"?service_id="+service+"&plan_id="+planID, nil)
	}
	unbind("b1")
	unbind("b2")
	if got := secrets(); len(got) != 1 || got[0] != third["client_secret"] {
		t.Errorf("the client has %v, want the newest secret", got)
	}
	unbind("b3")
	if left := made.ids(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestRotateUnknownPredecessor(t *testing.T) {
	t.Parallel()
	c := clientOf(t, started(t, withNotifications(t, newClients())))
	c.do(http.StatusCreated, http.MethodPut, "/v2/service_instances/mail", bindBodyOf(0, "a"))
	for _, id := range []any{"none", 7} {
		body := bindBodyOf(0, "a")
		body["predecessor_binding_id"] = id
		c.do(http.StatusBadRequest, http.MethodPut, bindingPath("mail", "b"), body)
	}
	for _, s := range c.do(http.StatusOK, http.MethodGet, "/v2/catalog", nil)["services"].([]any) {
		for _, p := range s.(map[string]any)["plans"].([]any) {
			if p.(map[string]any)["binding_rotatable"] != true {
				t.Errorf("%v does not say that its bindings can be rotated", p)
			}
		}
	}
}
