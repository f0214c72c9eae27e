package system

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/sshd"
)

// sshLink is what the root document says of the gateway.
func sshLink(t *testing.T, s *System) (address, fingerprint string) {
	t.Helper()
	links, _ := call(t, http.MethodGet, s.Endpoints().API+"/", "", nil).json(t)["links"].(map[string]any)
	link, _ := links["app_ssh"].(map[string]any)
	meta, _ := link["meta"].(map[string]any)
	if meta["oauth_client"] != "ssh-proxy" {
		t.Errorf("app_ssh: %v", links["app_ssh"])
	}
	address, _ = link["href"].(string)
	fingerprint, _ = meta["host_key_fingerprint"].(string)
	return address, fingerprint
}

func TestSSHIsAnnounced(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	s := startSystem(t, c)
	address, fingerprint := sshLink(t, s)
	if address != s.Endpoints().SSH || len(fingerprint) != 43 {
		t.Errorf("address %q, fingerprint %q, endpoints %q", address, fingerprint, s.Endpoints().SSH)
	}
	// A stranger meets the host key that was announced, and no more.
	var seen string
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User: "cf:nothing/0", Auth: []ssh.AuthMethod{ssh.Password("a guess")}, Timeout: time.Minute,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			seen = strings.TrimPrefix(ssh.FingerprintSHA256(key), "SHA256:")
			return nil
		},
	})
	if err == nil {
		client.Close()
		t.Error("a stranger is let in")
	}
	if seen != fingerprint {
		t.Errorf("the host key is %s, announced is %s", seen, fingerprint)
	}
	s.Stop()
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("somebody answers after the stop")
	}

	// The next start has the same key; on all addresses it is reached by the
	// name that the client knows.
	c.SSHListen = "0.0.0.0:0"
	s = startSystem(t, c)
	address, again := sshLink(t, s)
	here := netip.MustParseAddrPort(s.Endpoints().SSH)
	if again != fingerprint || address != here.String() || !here.Addr().IsLoopback() {
		t.Errorf("address %q, fingerprint %q; endpoints %s, fingerprint before %q", address, again, here, fingerprint)
	}
}

// TestSSHPlace asks where users may go with a gateway on a store with one app.
func TestSSHPlace(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d := dbtest.New(t, db.SQLite)
	if err := d.Migrate(ctx, platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	g := &gateway{store: platformdb.New(d), platform: actions.New(), log: discard}
	const developer = "the-developer"
	if err := createDemo(ctx, g.store, g.platform, developer); err != nil {
		t.Fatal(err)
	}
	app := &platform.App{Name: "a", State: platform.AppStarted}
	process := &platform.Process{Type: "web", Instances: 2, Version: "v"}
	running := &platform.Instance{Index: 1, Version: "v", State: platform.InstanceRunning}
	err := g.store.Update(ctx, func(tx platform.Tx) error {
		space, err := tx.Spaces().First(platform.Where("name", demoSpace))
		if err != nil {
			return err
		}
		app.SpaceGUID = space.GUID
		if err := tx.Apps().Insert(app); err != nil {
			return err
		}
		process.GUID, process.AppGUID = app.GUID, app.GUID
		if err := tx.Processes().Insert(process); err != nil {
			return err
		}
		running.AppGUID, running.ProcessGUID = app.GUID, process.GUID
		return tx.Instances().Insert(running)
	})
	if err != nil {
		t.Fatal(err)
	}
	place := func(user string, index int) sshd.Place {
		t.Helper()
		p, err := g.Place(ctx, sshd.User{GUID: user}, process.GUID, index)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	full := sshd.Place{
		AppGUID: app.GUID, Visible: true, Developer: true, SpaceAllows: true, AppAllows: true, Started: true, Running: true, InstanceID: running.GUID,
	}
	if got := place(developer, 1); !reflect.DeepEqual(got, full) {
		t.Errorf("the developer: %+v", got)
	}
	if got := place("a stranger", 1); got.Visible || got.Developer {
		t.Errorf("a stranger: %+v", got)
	}
	for _, index := range []int{0, 2, 100000} {
		if got := place(developer, index); got.InstanceID != "" || got.Running {
			t.Errorf("index %d: %+v", index, got)
		}
	}
	if _, err := g.Place(ctx, sshd.User{GUID: developer}, "no-such-process", 0); !fault.Is(err, fault.NotFound) {
		t.Errorf("a process that does not exist: %v", err)
	}
	err = g.store.Update(ctx, func(tx platform.Tx) error {
		now, err := tx.Apps().Get(app.GUID)
		if err != nil {
			return err
		}
		now.Features = map[string]bool{"ssh": false}
		now.State = platform.AppStopped
		space, err := tx.Spaces().Get(app.SpaceGUID)
		if err != nil {
			return err
		}
		space.SSHAllowed = false
		return errors.Join(tx.Apps().Update(now), tx.Spaces().Update(space))
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := place(developer, 1); got.AppAllows || got.SpaceAllows || got.Started || got.Running {
		t.Errorf("with both switches off and the app stopped: %+v", got)
	}
}
