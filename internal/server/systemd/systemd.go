package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/server/sockets"
)

// Variables are those of the protocols. They concern one process: a child gets none of
// those of the sockets.
const (
	listenPID   = "LISTEN_PID"
	listenFDs   = "LISTEN_FDS"
	listenNames = "LISTEN_FDNAMES"
	notifyAt    = "NOTIFY_SOCKET"
	// watchdogAfter is WatchdogSec= of the unit. WATCHDOG_PID, the process that systemd started, does
	// not matter: a successor inherits it.
	watchdogAfter = "WATCHDOG_USEC"
)

// ListenVariables are the variables that describe inherited sockets.
var ListenVariables = []string{listenPID, listenFDs, listenNames}

// firstFD is the descriptor of the first socket.
const firstFD = 3

// storedPrefix begins the names of sockets that a server stored itself, in contrast to those of
// .socket units.
const storedPrefix = "ingot-"

// usualWatchdog is WatchdogSec= of the unit in the package. A server that was started without one
// also says that it is alive: its successor may run when the unit has one.
const usualWatchdog = 2 * time.Minute

// Manager is the service manager. A nil Manager does nothing.
type Manager struct {
	address  string
	watchdog time.Duration
}

// New returns the manager that runs this process, or nil.
func New(getenv func(string) string) *Manager {
	at := getenv(notifyAt)
	if at == "" {
		return nil
	}
	m := &Manager{address: at, watchdog: usualWatchdog}
	if usec, err := strconv.ParseInt(getenv(watchdogAfter), 10, 64); err == nil && usec > 0 {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	return m
}

// Watchdog returns after which time without Alive the manager may restart the server; 0 without a
// manager.
func (m *Manager) Watchdog() time.Duration {
	if m == nil {
		return 0
	}
	return m.watchdog
}

// Alive says that the server works.
func (m *Manager) Alive() error { return m.send("WATCHDOG=1") }

// Sockets returns the sockets that the manager passed to process pid.
func Sockets(getenv func(string) string, pid int) ([]sockets.Socket, error) {
	if getenv(listenPID) != strconv.Itoa(pid) {
		return nil, nil // they are those of another process
	}
	n, err := strconv.Atoi(getenv(listenFDs))
	if err != nil || n < 0 {
		return nil, fmt.Errorf("%s: %q is not a number", listenFDs, getenv(listenFDs))
	}
	names := strings.Split(getenv(listenNames), ":")
	var list []sockets.Socket
	for i := range n {
		one := sockets.Socket{Unit: true, FD: firstFD + i}
		unix.CloseOnExec(one.FD)
		if i < len(names) {
			name, stored := strings.CutPrefix(names[i], storedPrefix)
			one.Name, one.Unit = name, !stored
		}
		list = append(list, one)
	}
	return list, nil
}

// Ready says that the server is ready, and what it does.
func (m *Manager) Ready(status string) error { return m.send("READY=1\nSTATUS=" + status) }

// Stopping says that the server stops.
func (m *Manager) Stopping() error { return m.send("STOPPING=1\nSTATUS=stopping") }

// Reloading says that a new process is about to replace this one.
func (m *Manager) Reloading() error {
	return m.send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(monotonic().Microseconds(), 10))
}

// Replaced says that the server is process pid from now on.
func (m *Manager) Replaced(pid int) error {
	return m.send("MAINPID=" + strconv.Itoa(pid) + "\nREADY=1")
}

// Keeper returns the manager's store of descriptors, or nil without a manager. If the unit
// has none (FileDescriptorStoreMax), systemd closes what it gets.
func (m *Manager) Keeper() sockets.Keeper {
	if m == nil {
		return nil
	}
	return keeper{m}
}

type keeper struct{ m *Manager }

// Keep implements sockets.Keeper.
func (k keeper) Keep(s sockets.Socket) error {
	return k.m.send("FDSTORE=1\nFDNAME="+storedPrefix+s.Name, s.FD)
}

// Drop implements sockets.Keeper.
func (k keeper) Drop(name string) error {
	return k.m.send("FDSTOREREMOVE=1\nFDNAME=" + storedPrefix + name)
}

// send sends a message, with descriptors.
func (m *Manager) send(text string, fds ...int) error {
	if m == nil {
		return nil
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	// An address that begins with @ is abstract, here and for systemd.
	_, _, err = conn.WriteMsgUnix([]byte(text), rights, &net.UnixAddr{Name: m.address, Net: "unixgram"})
	if err := errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// monotonic returns the time of CLOCK_MONOTONIC.
func monotonic() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

// Forget removes the variables of the sockets from the environment of this process, so that
// no child takes them for its own.
func Forget() {
	for _, name := range ListenVariables {
		_ = os.Unsetenv(name)
	}
}
