package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify/mail/mailtest"
)

// alone is the notification service in its own process, with another server as
// its authorization server and platform.
type alone struct {
	*Server
	up     *Server
	args   []string
	listen string
}

// prepareAlone returns a service that is not started yet.
func prepareAlone(t testing.TB, up *Server, args ...string) *alone {
	t.Helper()
	a := &alone{Server: &Server{Dir: filepath.Join(t.TempDir(), "data"), client: newClient()}, up: up, args: args,
		listen: loopback() + ":0"}
	t.Cleanup(a.client.CloseIdleConnections)
	return a
}

// launch starts it, again on the same address, and waits until it is ready.
func (a *alone) launch(t testing.TB) {
	t.Helper()
	a.client.CloseIdleConnections()
	a.process = run(t, nil, append([]string{
		"notifications", "--data-dir", a.Dir, "--listen", a.listen, "--admin-listen", strings.Split(a.listen, ":")[0] + ":0",
		"--auth-url", a.up.API, "--platform-url", a.up.API, "--client-secret-file", filepath.Join(a.up.Dir, "secrets",
			"ingot-notifications"),
	}, a.args...)...)
	a.poll(t, "write endpoints.json", func() bool {
		text, err := os.ReadFile(filepath.Join(a.Dir, "endpoints.json"))
		var e struct {
			Notifications, Admin string
			PID                  int
		}
		if err != nil || json.Unmarshal(text, &e) != nil || e.PID != a.Cmd.Process.Pid {
			return false
		}
		a.Notifications, a.Admin, a.listen = e.Notifications, e.Admin, strings.TrimPrefix(e.Notifications, "http://")
		return true
	})
	a.poll(t, "become ready", func() bool {
		r, err := a.try(http.MethodGet, a.Notifications+"/readyz", "", nil)
		return err == nil && r.Status == http.StatusOK
	})
}

// TestNotificationsAlone sends to every kind of audience from a service
// without users and spaces.
func TestNotificationsAlone(t *testing.T) {
	t.Parallel()
	p := newMailFixture(t, options{})
	ann := p.createUser(t, p.admin, "ann", "p")
	space, org := p.newSpace(t, ann)
	a := prepareAlone(t, p.Server, "--smtp-url", p.sink.URL("", ""), "--mail-from", "alone@example.org", "--domain",
		"example.org")
	a.launch(t)
	contains(t, a.Stdout.await(t, "is ready"), "the notification service")
	p.base = a.Notifications
	p.ask(t, http.MethodPost, "/users/"+ann, object{"kind_id": "news", "text": "t"}).
		want(t, http.StatusUnprocessableEntity)
	p.register(t, "news")
	for i, path := range []string{"/users/" + ann, "/spaces/" + space, "/organizations/" + org, "/everyone"} {
		subject := fmt.Sprintf("alone %d", i)
		p.ask(t, http.MethodPost, path, object{"kind_id": "news", "text": "t", "subject": subject}).want(t, http.StatusOK)
		to := []string{"ann@example.org"}
		if path == "/everyone" {
			to = append(to, "admin@localhost")
		}
		l := p.receive(t, subject, to...)[0]
		if !strings.Contains(l.Header.Get("From"), "alone@example.org") ||
			!strings.HasPrefix(l.Header.Get("List-Unsubscribe"), "<"+a.Notifications+"/unsubscribe/") {
			t.Errorf("%s: from %s, unsubscribe by %s", path, l.Header.Get("From"), l.Header.Get("List-Unsubscribe"))
		}
	}
	contains(t, a.call(t, http.MethodGet, a.Admin+"/metrics", "", nil).want(t, http.StatusOK).String(), "ingot_notify_")
	// It does not serve the other APIs.
	for _, path := range []string{"/v3/apps", "/oauth/token", "/Users"} {
		p.ask(t, http.MethodGet, path, nil).want(t, http.StatusNotFound)
	}
	// No other process may use its data meanwhile.
	second := run(t, []string{"INGOT_CLIENT_SECRET=x"}, "notifications", "--data-dir", a.Dir, "--listen", "127.0.0.1:0",
		"--admin-listen", "127.0.0.1:0", "--auth-url", p.API)
	if code := second.wait(t); code != 1 || !strings.Contains(second.Stderr.String(), "is already using") {
		t.Errorf("a second one on the same data: %d %s", code, second.Stderr)
	}

	if err := a.Cmd.Process.Signal(syscall.SIGTERM); err != nil || a.wait(t) != 0 {
		t.Fatalf("it does not stop: %v\n%s", err, a.Stderr)
	}
	// Without the authorization server it starts, and reports what is missing.
	p.Kill9(t)
	b := run(t, nil, "notifications", "--data-dir", a.Dir, "--listen", a.listen, "--admin-listen", "127.0.0.1:0",
		"--auth-url", p.API, "--client-secret-file", filepath.Join(p.Dir, "secrets", "ingot-notifications"))
	b.Stderr.await(t, `"msg":"ready"`)
	contains(t, a.call(t, http.MethodGet, a.Notifications+"/readyz", "", nil).want(t, http.StatusServiceUnavailable).
		String(), "authorization server")
	p.ask(t, http.MethodGet, "/notifications", nil).want(t, http.StatusServiceUnavailable)
}

// TestSoakKillWhileSending kills the service repeatedly while it sends to many
// recipients. Each gets the mail, and only those whose connection was cut by a
// kill get it twice.
func TestSoakKillWhileSending(t *testing.T) {
	t.Parallel()
	users, kills := times(2000, 10_000), times(5, 200)
	const connections = 8 // of --smtp-url
	up := start(t, options{})
	slow := mailtest.At(mailtest.Dot, mailtest.Action{Delay: 5 * time.Millisecond})
	p := &mailFixture{Server: up, sink: mailtest.New(t, mailtest.Options{Keep: 10 * users, Fault: slow}),
		admin: up.adminToken(t)}
	p.newSender(t, "my-sender", sendingAuthorities...).want(t, http.StatusCreated)
	p.token = p.clientToken(t, "my-sender", "my-secret")
	p.manyUsers(t, users)

	a := prepareAlone(t, up, "--smtp-url", p.sink.URL("", ""))
	a.launch(t)
	p.base = a.Notifications
	p.register(t, "news")
	r := p.ask(t, http.MethodPost, "/everyone", object{"kind_id": "news", "text": "t", "subject": "for all"},
		header{"Prefer", "respond-async"})
	location := r.want(t, http.StatusAccepted).Header.Get("Location")
	for i := range kills {
		// Some kills while recipients are still being read.
		if !p.sink.Wait(i*users/(kills+1), patience) {
			t.Fatalf("nothing more is sent after %d messages\n%s", p.sink.Accepted(), a.Stderr)
		}
		a.Kill9(t)
		a.launch(t)
	}
	testkit.Eventually(t, "the send is finished", func() bool {
		return p.ask(t, http.MethodGet, location, nil).want(t, http.StatusOK).object(t)["status"] == "completed"
	})
	to := map[string]int{}
	for _, m := range p.sink.Messages() {
		to[m.To]++
	}
	for i := range users {
		if to[fmt.Sprintf("many-%d@example.org", i)] == 0 {
			t.Errorf("many-%d got nothing", i)
		}
	}
	ids := p.sink.Received()
	twice := p.sink.Accepted() - len(ids)
	t.Logf("%d kills while sending to %d users: %d came twice, at most %d may", kills, users, twice, kills*connections)
	if len(ids) != users+1 || twice > kills*connections {
		t.Errorf("%d different messages for %d users and admin; %d came again, at most %d may", len(ids), users, twice,
			kills*connections)
	}
}

// manyUsers creates users without passwords, which would take long to hash.
func (p *mailFixture) manyUsers(t *testing.T, n int) {
	t.Helper()
	var all sync.WaitGroup
	const workers = 8
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				name := fmt.Sprintf("many-%d", i)
				r, err := p.try(http.MethodPost, p.API+"/Users", p.admin, object{
					"userName": name, "origin": "ldap", "emails": []object{{"value": name + "@example.org", "primary": true}},
				})
				if err != nil || r.Status != http.StatusCreated {
					t.Errorf("creating %s: %v, %v, want 201", name, r, err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}
