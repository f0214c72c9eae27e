package broker

import (
	"context"
	"testing"
)

// sharedServers starts a broker as it was when instances shared a server.
func sharedServers(t *testing.T, c Config) *Broker {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	need(t, b, Postgres, MySQL)
	p, err := b.config.localPostgres(b.secret)
	if err != nil {
		t.Fatal(err)
	}
	m, err := b.config.localMySQL(b.secret)
	if err != nil {
		t.Fatal(err)
	}
	b.backends[Postgres], b.backends[MySQL] = []backend{p}, []backend{m}
	if err := b.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}

// TestSharedServersGoOn: instances of earlier versions stay on the server that they share, with all
// operations. New ones get their own.
func TestSharedServersGoOn(t *testing.T) {
	t.Parallel()
	c := Config{Dir: tempDir(t), Keys: testKeys(t), Without: []string{Redis}}
	old := sharedServers(t, c)
	id, got := map[string]string{}, map[string]creds{}
	for _, name := range []string{Postgres, MySQL} {
		id[name] = clientOf(t, old).made(name, "small")
		_, got[name] = clientOf(t, old).bound(name, id[name])
		db := pooled(t, name, got[name])
		for _, s := range []string{"CREATE TABLE t (n INT)", "INSERT INTO t VALUES (42)"} {
			if _, err := db.ExecContext(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	old.Stop()
	b := started(t, c)
	check := func(b *Broker) {
		t.Helper()
		for name, c := range got {
			i := b.state.get(id[name])
			s, err := b.backendOf(i)
			if err == nil {
				err = s.ensure(t.Context(), i)
			}
			var n int
			if err == nil {
				err = pooled(t, name, c).QueryRowContext(t.Context(), "SELECT n FROM t").Scan(&n)
			}
			if err != nil || n != 42 || i.On != local {
				t.Errorf("%s on %s: %d, %v", name, i.On, n, err)
			}
		}
	}
	check(b)
	for name := range id {
		other := clientOf(t, b).made(name, "small")
		if on := b.state.get(other).On; on != own {
			t.Errorf("a new %s instance is on %s", name, on)
		}
		clientOf(t, b).deprovision(name, "small", other)
	}
	_, saved := savedData(t, c.Dir, c.Keys)
	b.Stop()
	b, done := restoredBroker(t, c.Dir, c.Keys, saved)
	if done.Instances != 2 || len(done.Lost) > 0 {
		t.Errorf("restored %+v", done)
	}
	check(b)

	// A backup that was killed leaves its user, which is deleted with the instance.
	m := b.backends[MySQL][1].(*mariadb)
	if err := m.exec(t.Context(), "CREATE USER "+account((&instance{ID: id[MySQL]}).temporary()+"left")); err != nil {
		t.Fatal(err)
	}
	for name := range id {
		clientOf(t, b).deprovision(name, "small", id[name])
	}
	var left int
	if err := m.admin.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM mysql.global_priv WHERE User LIKE 'tmp%'").
		Scan(&left); err != nil || left != 0 {
		t.Errorf("%d temporary users are left, %v", left, err)
	}
}
