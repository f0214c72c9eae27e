package router_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/edge/router"
	"ingot/internal/server/proxyheader"
)

// tcpFront is a TCP router with its table.
type tcpFront struct {
	t      testing.TB
	table  *router.Table
	tcp    *router.TCP
	proxy  *router.Proxy
	access chan router.Access
}

func newTCP(t testing.TB, o router.TCPOptions) *tcpFront {
	t.Helper()
	f := &tcpFront{t: t, table: new(router.Table), access: make(chan router.Access, 100)}
	f.proxy = router.NewProxy(f.table, router.Options{AccessLog: func(a router.Access) { f.access <- a }})
	t.Cleanup(f.proxy.Close)
	o.Host = "127.0.0.1"
	f.tcp = router.NewTCP(f.table, f.proxy, o)
	if err := f.tcp.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.tcp.Stop)
	return f
}

// freePort returns a port that nothing listens on.
func freePort(t testing.TB) int {
	t.Helper()
	return testkit.FreePort(t)
}

func tcpRoute(guid string, port int, backends ...router.Backend) router.Route {
	return router.Route{GUID: guid, Host: "tcp.test", Port: port, Backends: backends}
}

func instance(id, address string) router.Backend {
	return router.Backend{Address: address, AppGUID: "app", ProcessGUID: "app", InstanceGUID: id, Index: len(id),
		Protocol: "tcp"}
}

// tcpBackend is a server whose connections are served by f.
func tcpBackend(t testing.TB, f func(c *net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	serving.Add(1)
	go func() {
		defer serving.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			serving.Add(1)
			go func() {
				defer serving.Done()
				defer c.Close()
				f(c.(*net.TCPConn))
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	return l.Addr().String()
}

// echo says who it is, and then what it hears, until the other side is done.
func echo(name string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		_, _ = io.WriteString(c, name+"\n")
		_, _ = io.Copy(c, c)
	}
}

func (f *tcpFront) dial(port int) *net.TCPConn {
	f.t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c.(*net.TCPConn)
}

func line(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return strings.TrimSpace(s)
}

func wantReset(t testing.TB, c net.Conn, what string) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Fatalf("%s: read %d bytes, %v, want a reset", what, n, err)
	}
}

// wantRefused connects where the router resets connections, which may be before the client
// knows that it is connected.
func (f *tcpFront) wantRefused(port int, what string) {
	f.t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		f.t.Fatalf("%s: %v, want a reset", what, err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	wantReset(f.t, c, what)
}

func TestTCPService(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(*testing.T) background.Service {
		table := new(router.Table)
		return router.NewTCP(table, router.NewProxy(table, router.Options{}), router.TCPOptions{Host: "127.0.0.1"})
	})
}

// Connections are balanced, counted and logged, and one side can end its output before the
// other.
func TestTCPForward(t *testing.T) {
	t.Parallel()
	f := newTCP(t, router.TCPOptions{})
	port := freePort(t)
	f.table.Set(tcpRoute("r", port, instance("a", tcpBackend(t, echo("a"))), instance("bb", tcpBackend(t, echo("bb")))))
	seen := map[string]int{}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	for range 4 {
		c := f.dial(port)
		r := bufio.NewReader(c)
		name := line(t, r)
		seen[name]++
		go func() {
			_, _ = c.Write(big)
			_ = c.CloseWrite()
		}()
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, big) {
			t.Fatalf("%d of %d bytes came back, %v", len(got), len(big), err)
		}
		a := <-f.access
		if a.Host != "tcp.test:"+strconv.Itoa(port) || a.RequestBytes != int64(len(big)) ||
			a.ResponseBytes != int64(len(big)+len(name)+1) || a.Instance != name || a.App != "app" {
			t.Errorf("the access line has %+v", a)
		}
		if text := a.Line(); !strings.Contains(text, `"TCP" "-" 1048576 `) || !strings.Contains(text, `app_id:"app"`) ||
			strings.Contains(text, "x_forwarded") {
			t.Errorf("the access line is %s", text)
		}
	}
	if seen["a"] != 2 || seen["bb"] != 2 {
		t.Errorf("the connections went to %v, want two for each", seen)
	}
	s, _ := f.proxy.InstanceStats("a")
	if s.Connections != 2 || s.Requests != 0 || s.Active != 0 || s.Received != 2*int64(len(big)) {
		t.Errorf("the counts are %+v", s)
	}
}

// A port is open exactly while it has a route. Connections outlive changes that do not
// concern them, and end with their instance.
func TestTCPRouteChanges(t *testing.T) {
	t.Parallel()
	f := newTCP(t, router.TCPOptions{})
	port, other := freePort(t), freePort(t)
	gone := make(chan struct{})
	a := instance("a", tcpBackend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "a\n")
		<-gone
	}))
	b := instance("b", tcpBackend(t, echo("b")))
	f.table.Replace([]router.Route{tcpRoute("r", port, a), tcpRoute("s", other, b)})
	first := f.dial(port)
	line(t, bufio.NewReader(first))
	second := f.dial(other)
	r := bufio.NewReader(second)
	line(t, r)
	alive := func(when string) {
		t.Helper()
		if _, err := io.WriteString(second, when+"\n"); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if got := line(t, r); got != when {
			t.Fatalf("%s: got %q", when, got)
		}
	}
	f.table.Set(tcpRoute("s", other, b, instance("c", tcpBackend(t, echo("c")))))
	alive("another instance")
	f.table.Remove("r")
	alive("another route removed")
	if c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
		c.Close()
		t.Error("the port is open without a route")
	}
	f.table.Set(tcpRoute("t", port, b))
	if got := line(t, bufio.NewReader(f.dial(port))); got != "b" {
		t.Errorf("the port of a removed route leads to %q, want b", got)
	}
	f.table.Replace([]router.Route{tcpRoute("s", other, b)})
	alive("replaced")
	f.table.Set(tcpRoute("s", other))
	alive("the instance is not ready")
	f.wantRefused(other, "a route without an instance")
	router.SweepTCP(f.tcp, time.Now().Add(router.UnmappedFor-time.Minute))
	f.table.Set(tcpRoute("s", other, b))
	router.SweepTCP(f.tcp, time.Now().Add(router.UnmappedFor+time.Minute))
	alive("it is ready again")
	f.table.Remove("s")
	router.SweepTCP(f.tcp, time.Now().Add(router.UnmappedFor+time.Minute))
	wantReset(t, second, "unmapped for long")
	close(gone)
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("the connection outlives its instance")
	}
}

// Only an idle connection is closed after the idle timeout.
func TestTCPIdle(t *testing.T) {
	t.Parallel()
	f := newTCP(t, router.TCPOptions{})
	port := freePort(t)
	f.table.Set(tcpRoute("r", port, instance("a", tcpBackend(t, echo("a")))))
	idle, busy := f.dial(port), f.dial(port)
	line(t, bufio.NewReader(idle))
	r := bufio.NewReader(busy)
	line(t, r)
	now := time.Now()
	router.SweepTCP(f.tcp, now)
	_, _ = io.WriteString(busy, "still here\n")
	line(t, r)
	router.SweepTCP(f.tcp, now.Add(time.Hour))
	wantReset(t, idle, "idle")
	_, _ = io.WriteString(busy, "still here\n")
	if got := line(t, r); got != "still here" {
		t.Errorf("got %q", got)
	}
}

// The port of another program is reported and opened when it is free. Nothing else suffers.
func TestTCPPortInUse(t *testing.T) {
	t.Parallel()
	f := newTCP(t, router.TCPOptions{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken, port := l.Addr().(*net.TCPAddr).Port, freePort(t)
	if err := f.tcp.Free(taken); err == nil || !strings.Contains(err.Error(), "another program listens on port") {
		t.Errorf("Free of a taken port: %v", err)
	}
	if err := f.tcp.Free(port); err != nil {
		t.Errorf("Free of a free port: %v", err)
	}
	b := instance("b", tcpBackend(t, echo("b")))
	f.table.Replace([]router.Route{tcpRoute("r", taken, b), tcpRoute("s", port, b)})
	if got := line(t, bufio.NewReader(f.dial(port))); got != "b" {
		t.Errorf("got %q, want b", got)
	}
	l.Close()
	router.SweepTCP(f.tcp, time.Now())
	if got := line(t, bufio.NewReader(f.dial(taken))); got != "b" {
		t.Errorf("got %q, want b", got)
	}
	if err := f.tcp.Free(taken); err != nil {
		t.Errorf("Free of a port of this router: %v", err)
	}
}

// Connections are limited by source and by app, and an instance that cannot be reached is
// avoided.
func TestTCPLimits(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	for what, o := range map[string]router.TCPOptions{"source": {PerSource: 2},
		"app": {PerApp: 2, Unlimited: func(netip.Addr) bool { return true }}} {
		f := newTCP(t, o)
		dead := instance("dead", "127.0.0.1:"+strconv.Itoa(freePort(t)))
		f.table.Set(tcpRoute("r", port, dead, instance("a", tcpBackend(t, echo("a")))))
		var open []net.Conn
		for range 2 {
			c := f.dial(port)
			line(t, bufio.NewReader(c))
			open = append(open, c)
		}
		f.wantRefused(port, what)
		if a := <-f.access; a.RouterError != "too_many_connections" {
			t.Errorf("%s: the access line has %q", what, a.RouterError)
		}
		open[0].Close()
		if a := <-f.access; a.RouterError != "" || a.Instance != "a" {
			t.Errorf("%s: the access line has %q, %q", what, a.RouterError, a.Instance)
		}
		f.tcp.Stop()
		wantReset(t, open[1], "stopped")
	}
}

// The app gets the client's address with the PROXY protocol, if the route has it.
func TestTCPProxyProtocol(t *testing.T) {
	t.Parallel()
	f := newTCP(t, router.TCPOptions{})
	for version, want := range map[string]func(from, to netip.AddrPort) string{
		"": func(_, _ netip.AddrPort) string { return "" },
		"v1": func(from, to netip.AddrPort) string {
			return "PROXY TCP4 127.0.0.1 127.0.0.1 " + strconv.Itoa(int(from.Port())) + " " +
				strconv.Itoa(int(to.Port())) + "\r\n"
		},
		"v2": func(from, to netip.AddrPort) string {
			return "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01" +
				string([]byte{byte(from.Port() >> 8), byte(from.Port()), byte(to.Port() >> 8), byte(to.Port())})
		},
	} {
		heard := make(chan string, 1)
		address := tcpBackend(t, func(c *net.TCPConn) {
			all, _ := io.ReadAll(c)
			heard <- string(all)
		})
		port := freePort(t)
		route := tcpRoute("r"+version, port, instance("a"+version, address))
		route.Options = map[string]string{"proxy_protocol": version}
		f.table.Set(route)
		c := f.dial(port)
		_, _ = io.WriteString(c, "hello")
		_ = c.CloseWrite()
		from, to := c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
		if got, want := <-heard, want(from, to)+"hello"; got != want {
			t.Errorf("%q: the app got %q, want %q", version, got, want)
		}
	}
}

// A load balancer in front of a TCP route names the client: in the access log, and to an
// app that wants a PROXY header.
func TestTCPBehindALoadBalancer(t *testing.T) {
	t.Parallel()
	f := newTCP(t, router.TCPOptions{Wrap: func(l net.Listener) net.Listener {
		return proxyheader.Listen(l, proxyheader.Options{From: netip.Addr.IsLoopback, Log: slog.New(slog.DiscardHandler)})
	}})
	heard := make(chan string, 1)
	address := tcpBackend(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c)
		heard <- string(all)
	})
	const header = "PROXY TCP4 203.0.113.7 192.0.2.1 5000 1024\r\n"
	for version, want := range map[string]string{"": "hello", "v1": header + "hello"} {
		port := freePort(t)
		route := tcpRoute("r"+version, port, instance("a"+version, address))
		route.Options = map[string]string{"proxy_protocol": version}
		f.table.Set(route)
		c := f.dial(port)
		_, _ = io.WriteString(c, header+"hello")
		_ = c.CloseWrite()
		if got := <-heard; got != want {
			t.Errorf("%q: the app got %q, want %q", version, got, want)
		}
		if a := <-f.access; a.RemoteAddr != "203.0.113.7:5000" || a.RequestBytes != int64(len("hello")) {
			t.Errorf("%q: the access log has %s and %d bytes, want 203.0.113.7:5000 and 5", version, a.RemoteAddr,
				a.RequestBytes)
		}
		f.table.Remove(route.GUID)
	}
}

// No HTTP request reaches a TCP route.
func TestTCPRoutesAreApart(t *testing.T) {
	t.Parallel()
	table := new(router.Table)
	table.Replace([]router.Route{tcpRoute("r", 1024, instance("a", "127.0.0.1:1"))})
	table.Set(tcpRoute("s", 1025, instance("a", "127.0.0.1:1")))
	for _, host := range []string{"tcp.test", "tcp.test:1024", "TCP1024", "tcp1024", "TCP1025", "x.TCP1025"} {
		if m, found := table.Lookup(host, "/"); found {
			t.Errorf("%s leads to the TCP route %s", host, m.Route.GUID)
		}
	}
	if table.Len() != 2 {
		t.Errorf("the table has %d routes, want 2", table.Len())
	}
	table.Remove("r")
	table.Remove("s")
	if n := router.States(table); n != 0 || table.Len() != 0 {
		t.Errorf("%d states and %d routes are left", n, table.Len())
	}
}

// TestSoakTCPFlood opens far more connections to a TCP route than its app may have: the others are
// refused at once, and another app's route is not affected.
func TestSoakTCPFlood(t *testing.T) {
	t.Parallel()
	const most = 50
	flood := 1000
	if os.Getenv("INGOT_SOAK") == "1" {
		flood = 20_000
	}
	f := newTCP(t, router.TCPOptions{PerApp: most, Total: 2 * most, Unlimited: func(netip.Addr) bool { return true }})
	stop := make(chan struct{})
	defer close(stop)
	go func() { // as the log does
		for {
			select {
			case <-f.access:
			case <-stop:
				return
			}
		}
	}()
	crowded, quiet := freePort(t), freePort(t)
	f.table.Set(tcpRoute("crowded", crowded, instance("a", tcpBackend(t, echo("a")))))
	other := instance("b", tcpBackend(t, echo("b")))
	other.AppGUID = "other"
	f.table.Set(tcpRoute("quiet", quiet, other))
	var served atomic.Int64
	var all sync.WaitGroup
	slots, goOn := make(chan struct{}, 200), make(chan struct{})
	for range flood {
		slots <- struct{}{}
		all.Go(func() {
			c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(crowded))
			if err != nil {
				<-slots
				return
			}
			defer c.Close()
			_, err = c.Read(make([]byte, 1))
			<-slots
			if err == nil {
				served.Add(1)
				<-goOn
			}
		})
	}
	for range cap(slots) { // until each was served or refused
		slots <- struct{}{}
	}
	c := f.dial(quiet)
	if got := line(t, bufio.NewReader(c)); got != "b" {
		t.Errorf("the other app says %q, want b", got)
	}
	f.wantRefused(crowded, "one more")
	close(goOn)
	all.Wait()
	if got := served.Load(); got != most {
		t.Errorf("%d connections were served, want %d", got, most)
	}
	testkit.Eventually(t, "there is room again", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(crowded))
		if err != nil {
			return false
		}
		defer c.Close()
		n, _ := c.Read(make([]byte, 1))
		return n == 1
	})
}
