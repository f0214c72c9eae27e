package enginetest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

var netCases = []testCase{
	{name: "Localhost", test: localhost},
	{name: "Ports", test: ports},
	{name: "FixedPort", needs: sharedPorts, test: fixedPort},
	{name: "Dial", test: dial},
	{name: "HealthPort", test: healthPort},
	{name: "HealthHTTP", test: healthHTTP},
	{name: "Unhealthy", test: unhealthy},
	{name: "WrongPort", test: wrongPort},
}

// fetch sends an HTTP request over a connection from dial.
func fetch(ctx context.Context, dial func(context.Context) (net.Conn, error)) (string, error) {
	client := &http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://instance/", nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(b)), errors.Join(err, resp.Body.Close())
}

// get sends a request to a server inside the instance, through Dial.
func get(t *testing.T, s *suite, id, network, address string) (string, error) {
	t.Helper()
	return fetch(within(t), func(ctx context.Context) (net.Conn, error) { return s.Dial(ctx, id, network, address) })
}

func localhost(s *suite, t *testing.T) {
	_, f := s.run(t,
		withPort(sh("web", `"$MEMBER" get tcp 127.0.0.1:$PORT; "$MEMBER" get unix side.sock; `+waiting)),
		withPort(sh("side", `exec "$MEMBER" serve tcp 127.0.0.1:$PORT unix side.sock "from the sidecar"`)))
	for range 2 {
		r := f.until("answer", func(r initproto.Record) bool { return string(r.Payload) == "from the sidecar" })
		if r.Member != 0 {
			t.Errorf("the line is of member %d", r.Member)
		}
	}
}

// withPort passes port 8080 to a member.
func withPort(m initproto.Member) initproto.Member {
	m.Env = append(m.Env, "PORT={{port:8080}}")
	return m
}

func ports(s *suite, t *testing.T) {
	seen := map[string]bool{}
	for _, text := range []string{"first", "second"} {
		spec := s.spec(t, withPort(sh("web", `exec "$MEMBER" serve tcp :$PORT `+text)))
		spec.Ports = []int{8080}
		id := s.start(t, spec)
		s.follow(t, id, 0).line("serving")
		list := s.get(t, id).Ports
		if len(list) != 1 || list[0].Inside != 8080 || list[0].Listens == 0 || seen[list[0].Address] {
			t.Fatalf("ports: %+v", list)
		}
		seen[list[0].Address] = true
		got, err := fetch(within(t), func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", list[0].Address)
		})
		if err != nil || got != text {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}

// listenQuietly listens on a port below those that the system gives to outgoing
// connections, so that it is still free after the listener was closed.
func listenQuietly(t *testing.T) net.Listener {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(12000+rand.IntN(8000))))
		if err == nil {
			return l
		}
	}
	t.Fatal("no free port between 12000 and 20000")
	return nil
}

func fixedPort(s *suite, t *testing.T) {
	l := listenQuietly(t)
	_, text, err := net.SplitHostPort(l.Addr().String())
	testkit.Must(t, err)
	fixed := l.Addr().(*net.TCPAddr).Port
	spec := func() engine.Spec {
		e := s.spec(t, sh("web", waiting), sh("side", `exec "$MEMBER" serve tcp 127.0.0.1:`+text+` side`))
		e.Ports = []int{fixed}
		return e
	}
	refused := func(e engine.Spec) {
		t.Helper()
		err := s.Start(within(t), e)
		if !fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), text) {
			t.Errorf("Start: %v", err)
		}
		s.isAbsent(t, e.ID)
	}
	refused(spec()) // another program listens there
	// A process that is just being started has a copy of the socket.
	syscall.ForkLock.RLock()
	l.Close()
	syscall.ForkLock.RUnlock()

	id := s.start(t, spec())
	refused(spec()) // reserved, whether it listens yet or not
	s.follow(t, id, 0).line("serving")
	refused(spec())
	if p := s.get(t, id).Ports; len(p) != 1 || p[0].Listens != fixed {
		t.Errorf("ports: %+v", p)
	}
	s.remove(t, id)
	s.follow(t, s.start(t, spec()), 0).line("serving")
}

func dial(s *suite, t *testing.T) {
	spec := s.spec(t, withPort(sh("web", `exec "$MEMBER" serve tcp 127.0.0.1:$PORT inside`)))
	spec.Ports = []int{8080}
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	f.line("serving")
	for _, address := range []string{"127.0.0.1:8080", "localhost:8080"} {
		if got, err := get(t, s, id, "tcp", address); err != nil || got != "inside" {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
	ctx, cancel := context.WithTimeout(within(t), 10*time.Second)
	defer cancel()
	if c, err := s.Dial(ctx, id, "tcp", "127.0.0.1:1"); err == nil {
		c.Close()
		t.Error("there is something on port 1")
	}
	testkit.Must(t, s.Signal(within(t), id))
	f.end()
	s.awaitGone(t, id)
	if c, err := s.Dial(within(t), id, "tcp", "127.0.0.1:8080"); err == nil {
		c.Close()
		t.Error("an ended instance answers")
	}
}

const soon = 50 * time.Millisecond

func healthPort(s *suite, t *testing.T) {
	spec := s.spec(t, withPort(sh("web",
		`echo thinking; while ! test -e go; do sleep 0.02; done; exec "$MEMBER" serve tcp :$PORT up`)))
	spec.Ports = []int{8080}
	spec.Launch.Health = initproto.Check{
		Kind: initproto.CheckPort, Ports: []int{8080}, Startup: patience, Invocation: patience, Interval: soon,
	}
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	f.line("thinking")
	if p := s.get(t, id).State.Phase; p != initproto.Starting {
		t.Errorf("phase %s", p)
	}
	s.sh(t, id, `touch go`)
	f.event(initproto.EventHealthy)
	if i := s.get(t, id); i.State.Phase != initproto.Running {
		t.Errorf("phase %s", i.State.Phase)
	}
	f.event(initproto.EventReady)
}

func healthHTTP(s *suite, t *testing.T) {
	spec := s.spec(t, withPort(sh("web", `exec "$MEMBER" serve tcp :$PORT up`)))
	spec.Ports = []int{8080}
	spec.Launch.Health = initproto.Check{
		Kind: initproto.CheckHTTP, Ports: []int{8080}, Endpoint: "/", Startup: patience, Invocation: patience, Interval: soon,
	}
	spec.Launch.Readiness = spec.Launch.Health
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	f.event(initproto.EventHealthy)
	f.event(initproto.EventReady)
	if !s.get(t, id).State.Ready {
		t.Error("not ready")
	}
}

// wrongPort: the log of an app that listens on another port names the right one.
func wrongPort(s *suite, t *testing.T) {
	want := regexp.MustCompile(`port \d+ is not listening: .*: the app listens on port \d+ instead; make it listen on the port in \$PORT$`)
	// On a slow machine the app does not listen at all in the time that it has.
	for startup := 2 * time.Second; ; startup *= 4 {
		spec := s.spec(t, withPort(sh("web", `exec "$MEMBER" serve tcp 127.0.0.1:0 lost`)))
		spec.Ports = []int{8080}
		spec.Launch.Health = initproto.Check{
			Kind: initproto.CheckPort, Ports: []int{8080}, Startup: startup, Invocation: soon, Interval: soon,
		}
		f := s.follow(t, s.start(t, spec), 0)
		reason := f.event(initproto.EventUnhealthy).Reason
		f.event(initproto.EventEnded)
		f.end()
		if want.MatchString(reason) {
			return
		}
		if startup > time.Minute {
			t.Fatalf("the reason is %q", reason)
		}
	}
}

func unhealthy(s *suite, t *testing.T) {
	spec := s.spec(t, withPort(sh("web", `echo deaf; `+waiting)))
	spec.Ports = []int{8080}
	spec.Launch.Health = initproto.Check{
		Kind: initproto.CheckPort, Ports: []int{8080}, Startup: 10 * soon, Invocation: soon, Interval: soon,
	}
	id := s.start(t, spec)
	f := s.follow(t, id, 0)
	if e := f.event(initproto.EventUnhealthy); e.Reason == "" {
		t.Error("no reason was given")
	}
	f.event(initproto.EventEnded)
	f.end()
	if x := s.awaitGone(t, id).State.Exit; x == nil || x.Stopped {
		t.Errorf("exit: %+v", x)
	}
}
