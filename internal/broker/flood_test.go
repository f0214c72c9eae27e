package broker

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ingot/internal/broker/forward"
)

// testReach is a network of containers on loopback.
var testReach = Reach{Host: netip.MustParseAddr("127.0.0.9"), From: netip.MustParsePrefix("127.0.0.8/29")}

// notOwn treats no address as this machine's: on loopback all are.
func notOwn(netip.Addr) bool { return false }

func dialFrom(t *testing.T, from string, to netip.AddrPort) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
	c, err := d.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestUnfinishedLogins has one bound app that opens connections to PostgreSQL and
// never completes a login: other apps can still log in.
func TestUnfinishedLogins(t *testing.T) {
	t.Parallel()
	b, err := New(Config{Dir: tempDir(t), Keys: testKeys(t), Reach: testReach, Without: []string{MySQL, Redis}})
	if err != nil {
		t.Fatal(err)
	}
	if why := b.Missing()[Postgres]; why != nil {
		t.Skip(why)
	}
	b.forward = forward.New(testReach, notOwn, slog.New(slog.DiscardHandler))
	if err := b.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	c := clientOf(t, b)
	mine, theirs := bound(t, c, "mine", "greedy"), bound(t, c, "theirs", "modest")
	var open int
	for range 900 {
		conn := dialFrom(t, "127.0.0.11", netip.AddrPortFrom(testReach.Host, uint16(mine.port)))
		// The beginning of a login: the server asks for a password now.
		body := "\x00\x03\x00\x00user\x00" + mine.user + "\x00database\x00" + mine.database + "\x00\x00"
		if _, err := conn.Write(append([]byte{0, 0, 0, byte(len(body) + 4)}, body...)); err == nil {
			open++
		}
	}
	t.Logf("%d of 900 connections were not refused at once", open)
	config, err := pgx.ParseConfig(theirs.uri)
	if err != nil {
		t.Fatal(err)
	}
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.10")}}
		return d.DialContext(ctx, network, address)
	}
	for range 10 {
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatalf("another app cannot log in: %v", err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) }) //nolint:errcheck // the test is over
	}
	// The administrator can still connect: another binding is created.
	bound(t, c, "theirs", "another")
	list, err := b.Endpoints(t.Context(), "modest")
	if err != nil || len(list) != 1 || int(list[0].Port()) != theirs.port {
		t.Errorf("what the app is bound to: %v, %v", list, err)
	}
	if list, err := b.Endpoints(t.Context(), "unbound"); err != nil || len(list) != 0 {
		t.Errorf("what an app without bindings reaches: %v, %v", list, err)
	}
}

type login struct {
	uri, user, database string
	port                int
}

// bound creates an instance of PostgreSQL, unless it exists, and binds an app to
// it.
func bound(t *testing.T, c *client, instance, app string) login {
	t.Helper()
	o, _ := offeringNamed(Postgres)
	ids := map[string]any{"service_id": o.id, "plan_id": o.plans[0].id, "organization_guid": "o", "space_guid": "s"}
	if status, answer, err := c.try("PUT", "/v2/service_instances/"+instance, ids); err != nil || status > 201 {
		t.Fatalf("provisioning: %d %v, %v, want 200 or 201", status, answer, err)
	}
	ids["bind_resource"] = map[string]any{"app_guid": app}
	status, answer, err := c.try("PUT", "/v2/service_instances/"+instance+"/service_bindings/"+app, ids)
	if err != nil || status > 201 {
		t.Fatalf("binding: %d %v, %v, want 200 or 201", status, answer, err)
	}
	values := answer["credentials"].(map[string]any)
	l := login{uri: values["uri"].(string), user: values["username"].(string), database: values["database"].(string),
		port: int(values["port"].(float64))}
	if !strings.Contains(l.uri, testReach.Host.String()) {
		t.Errorf("the URI does not lead to the forwarder: %s", l.uri)
	}
	return l
}
