package systemd

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/server/sockets"
)

// TestNotify sends every message to a socket like systemd's.
func TestNotify(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	server, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	m := New(func(name string) string {
		return map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "90000000", "WATCHDOG_PID": "1"}[name]
	})
	if got := m.Watchdog(); got != 90*time.Second {
		t.Errorf("the watchdog is %v, want 1m30s", got)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	one := sockets.Socket{Name: "listen", FD: int(file.Fd())}
	for want, send := range map[string]func() error{
		"READY=1\nSTATUS=fine":               func() error { return m.Ready("fine") },
		"STOPPING=1\nSTATUS=stopping":        m.Stopping,
		"RELOADING=1\nMONOTONIC_USEC=":       m.Reloading,
		"MAINPID=42\nREADY=1":                func() error { return m.Replaced(42) },
		"WATCHDOG=1":                         m.Alive,
		"FDSTORE=1\nFDNAME=ingot-listen":     func() error { return m.Keeper().Keep(one) },
		"FDSTOREREMOVE=1\nFDNAME=ingot-gone": func() error { return m.Keeper().Drop("gone") },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
		text, rights := make([]byte, 1024), make([]byte, unix.CmsgSpace(4))
		_ = server.SetReadDeadline(time.Now().Add(time.Minute))
		n, have, _, _, err := server.ReadMsgUnix(text, rights)
		if err != nil || !strings.HasPrefix(string(text[:n]), want) {
			t.Errorf("got %q, %v, want %q", text[:n], err, want)
		}
		if strings.HasPrefix(want, "FDSTORE=1") != (have > 0) {
			t.Errorf("%q has %d bytes of rights", want, have)
		}
	}
}

// TestWithout: without systemd nothing is sent.
func TestWithout(t *testing.T) {
	t.Parallel()
	m := New(func(string) string { return "" })
	if m.Ready("") != nil || m.Stopping() != nil || m.Alive() != nil || m.Keeper() != nil || m.Watchdog() != 0 {
		t.Error("something was sent")
	}
}

// TestSockets: only sockets for this process are taken, by their names.
func TestSockets(t *testing.T) {
	t.Parallel()
	env := map[string]string{"LISTEN_PID": "7", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "ingot.socket:ingot-tcp-route-1024"}
	getenv := func(name string) string { return env[name] }
	if list, err := Sockets(getenv, 8); err != nil || len(list) != 0 {
		t.Errorf("of another process: %v, %v, want none", list, err)
	}
	list, err := Sockets(getenv, 7)
	want := []sockets.Socket{{Name: "ingot.socket", Unit: true, FD: 3}, {Name: "tcp-route-1024", FD: 4}}
	if err != nil || len(list) != 2 || list[0] != want[0] || list[1] != want[1] {
		t.Errorf("got %v, %v, want %v", list, err, want)
	}
	env["LISTEN_FDS"] = "many"
	if _, err := Sockets(getenv, 7); err == nil {
		t.Error("an invalid number is accepted")
	}
}
