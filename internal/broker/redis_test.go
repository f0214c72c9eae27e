package broker

import (
	"context"
	"net/http"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"ingot/internal/base/testkit"
)

func rd(t testing.TB, c creds) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(c.URI)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { client.Close() }) //nolint:errcheck // nothing is left to lose
	return client
}

func TestRedis(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, Redis)
	c := clientOf(t, b)
	id, other := c.made(Redis, "small"), c.made(Redis, "small")
	firstID, first := c.bound(Redis, id)
	_, second := c.bound(Redis, id)
	_, theirs := c.bound(Redis, other)
	one, two := rd(t, first), rd(t, second)
	if err := one.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if v, err := two.Get(t.Context(), "k").Result(); err != nil || v != "v" {
		t.Errorf("value is %q, %v, want v", v, err)
	}
	if keys, err := rd(t, theirs).Keys(t.Context(), "*").Result(); err != nil || len(keys) != 0 {
		t.Errorf("another instance sees %v, %v", keys, err)
	}
	foreign := first
	foreign.URI = "redis://" + first.Username + ":" + first.Password + "@" + theirs.address()
	if err := rd(t, foreign).Ping(t.Context()).Err(); err == nil {
		t.Error("one instance's user is known to the other")
	}
	for _, forbidden := range [][]any{
		{"CONFIG", "SET", "dir", "/tmp"}, {"CONFIG", "GET", "*"}, {"ACL", "LIST"}, {"ACL", "SETUSER", "x"}, {"SHUTDOWN"},
		{"DEBUG", "SLEEP", "0"},
		{"SAVE"}, {"BGREWRITEAOF"}, {"REPLICAOF", "127.0.0.1", "1"}, {"MODULE", "LIST"}, {"MONITOR"},
		{"MIGRATE", "127.0.0.1", "1", "k", "0", "1"}, {"CLIENT", "LIST"},
	} {
		if err := one.Do(t.Context(), forbidden...).Err(); err == nil {
			t.Errorf("may: %v", forbidden)
		}
	}
	for _, allowed := range [][]any{{"INFO"}, {"EVAL", "return 1", "0"}, {"SCAN", "0"}, {"PUBLISH", "c", "m"},
		{"CLIENT", "SETNAME", "x"}, {"FLUSHDB"}} {
		if err := one.Do(t.Context(), allowed...).Err(); err != nil {
			t.Errorf("may not: %v: %v", allowed, err)
		}
	}
	if err := one.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	c.unbind(Redis, id, firstID)
	if err := rd(t, first).Ping(t.Context()).Err(); err == nil {
		t.Error("the user of a binding that was removed can log in")
	}
	if err := one.Ping(t.Context()).Err(); err == nil {
		t.Error("a connection of a binding that was removed lives on")
	}
	// A killed server restarts with its users and data.

	servers := b.backends[Redis][0].(*redisServers)
	servers.mu.Lock()
	daemon := servers.running[id].daemon
	servers.mu.Unlock()
	kill(t, daemon.PID())
	testkit.Eventually(t, "the value is back", func() bool {
		v, err := two.Get(context.Background(), "k").Result()
		return err == nil && v == "v"
	})
	if err := rd(t, first).Ping(t.Context()).Err(); err == nil {
		t.Error("the user that was removed came back")
	}
	dir := servers.instanceDir(b.state.get(id))
	c.deprovision(Redis, "small", id)
	c.do(http.StatusGone, http.MethodDelete, "/v2/service_instances/"+id+query(Redis, "small"), nil)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
	c.deprovision(Redis, "small", other)
}
