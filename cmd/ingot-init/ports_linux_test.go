package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform/instance/initproto"
)

func TestParseListening(t *testing.T) {
	t.Parallel()
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  2000        0 11 1 0000000000000000 100 0 0 10 0
   1: 00000000:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  2000        0 12 1 0000000000000000 100 0 0 10 0
   2: 0100007F:0BB9 0100007F:8000 01 00000000:00000000 00:00000000 00000000  2000        0 13 1 0000000000000000 100 0 0 10 0
   3: 00000000000000000000000001000000:22B8 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 14 1 0 100 0 0 10 0
   4: nonsense
`
	if binaryIsBig() {
		t.Skip("the table is that of a little-endian machine")
	}
	text := ""
	eachListening(strings.NewReader(table), func(s socket, inode string) {
		if inode != "12" {
			text += fmt.Sprintf("%s %d,", s.address, s.port)
		}
	})
	if text != "127.0.0.1 8080,::1 8888," {
		t.Errorf("listening on %q, want 127.0.0.1 8080 and ::1 8888", text)
	}
}

func binaryIsBig() bool {
	little := false
	eachListening(strings.NewReader("0: 0100007F:1F90 x 0A x x x x x 1\n"), func(s socket, _ string) {
		little = s.address.String() == "127.0.0.1"
	})
	return !little
}

func TestListening(t *testing.T) {
	t.Parallel()
	port := listener(t, loopback, "")
	h := &host{}
	if all, own := h.listening(os.Getpid()); !own ||
		!slices.ContainsFunc(all, func(s socket) bool { return s.port == port && s.address.IsLoopback() }) {
		t.Errorf("port %d is not among %v", port, all)
	}
}

// A process that listens and accepts nothing is not told to listen at another address.
func TestBusyListener(t *testing.T) {
	t.Parallel()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd) //nolint:errcheck // it is a test's
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	addr, ok := at.(*syscall.SockaddrInet4)
	if err != nil || !ok {
		t.Fatal(at, err)
	}
	check := initproto.Check{Kind: initproto.CheckPort, Ports: []int{addr.Port}, Invocation: 200 * time.Millisecond}
	for { // until no further connection fits into its queue
		c, err := net.DialTimeout("tcp", net.JoinHostPort(loopback, strconv.Itoa(addr.Port)), 200*time.Millisecond)
		if err != nil {
			break
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	err = probe(t.Context(), check)
	all := func() ([]socket, bool) { return []socket{{net.IPv6zero, addr.Port}}, true }
	want := fmt.Sprintf("port %d does not accept connections: no answer within 200ms", addr.Port)
	if err == nil || (subject{listening: all}).explained(err, check.Ports) != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func TestExplained(t *testing.T) {
	t.Parallel()
	closed := &closedPort{8080, "connection refused"}
	for _, tc := range []struct {
		err     error
		sockets []socket
		want    string
	}{
		{closed, nil, "port 8080 is not listening: connection refused"},
		// listening, but not on the wanted port
		{closed, []socket{{net.IPv4zero, 9000}}, "port 8080 is not listening: connection refused"},
		{closed, []socket{{net.IPv4zero, 3000}, {net.IPv6zero, 3000}},
			"port 8080 is not listening: connection refused: the app listens on port 3000 instead; make it listen on the port " +
				"in $PORT"},
		{closed, []socket{{net.IPv4zero, 5000}, {net.IPv4zero, 3000}},
			"port 8080 is not listening: connection refused: the app listens on ports 3000, 5000 instead; make it listen on " +
				"the port in $PORT"},
		{closed, []socket{{net.IPv6loopback, 8080}},
			"port 8080 is not listening: connection refused: the app listens there at ::1 only; make it listen at 0.0.0.0"},
		{closed, []socket{{net.IPv6loopback, 8080}, {net.IPv4zero, 8080}}, "port 8080 is not listening: connection refused"},
		{errors.New("HTTP status 500"), []socket{{net.IPv4zero, 3000}}, "HTTP status 500"},
	} {
		if got := (subject{listening: func() ([]socket, bool) { return tc.sockets, true }}).
			explained(tc.err, []int{8080, 9000}); got != tc.want {
			t.Errorf("%s\nwant %s", got, tc.want)
		}
	}
	elsewhere := func() ([]socket, bool) { return []socket{{net.IPv4zero, 3000}}, true }
	side := subject{sidecar: true, listening: elsewhere}
	if got, want := side.explained(&closedPort{9090, "connection refused"}, []int{9090}),
		"port 9090 is not listening: connection refused: the sidecar listens on port 3000 instead; make it listen on the "+
			"port that it declares in `ports`"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	spec := initproto.Spec{Members: []initproto.Member{{Name: "web"}, {Name: "proxy", Ports: []int{9091, 9092}},
		{Name: "sidecar/web", Ports: []int{9093}}}}
	app := subject{listening: elsewhere, others: declared(spec)}
	if got, want := app.explained(&closedPort{9090, "connection refused"}, []int{8080, 9090}),
		"port 9090 is not listening: connection refused: no process of the app listens on port 9090; sidecar proxy "+
			"declares 9091, 9092; sidecar web declares 9093"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := app.explained(closed, []int{8080, 9090}); !strings.HasSuffix(got, "make it listen on the port in $PORT") {
		t.Errorf("the main process's own port: %s", got)
	}
}

// TestCPUTime uses processor time and sees it.
func TestCPUTime(t *testing.T) {
	t.Parallel()
	for begin, n := cpuTime(os.Getpid()), 0; cpuTime(os.Getpid()) <= begin; n++ {
	}
	if got := cpuTime(1 << 30); got != 0 {
		t.Errorf("a process that does not exist has used %s", got)
	}
}
