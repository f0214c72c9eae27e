package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"ingot/internal/base/daemon"
	"ingot/internal/broker/forward"
)

// local is the name of a server that Ingot runs itself.
const local = "local"

// backend creates instances and bindings on a kind of server. Each method can
// be repeated after an interruption, and then completes the work.
type backend interface {
	// name identifies the server in the records of its instances: local, or
	// HOST:PORT.
	name() string
	// up reports whether the server of the instance is running.
	up(i *instance) bool
	// wake starts the server of the instance unless it runs, without waiting.
	wake(ctx context.Context, i *instance) error
	// ensure starts the server of the instance unless it runs, and waits until
	// it answers.
	ensure(ctx context.Context, i *instance) error

	create(ctx context.Context, i *instance, p parameters) error
	// drop removes the instance with all its bindings.
	drop(ctx context.Context, i *instance) error
	// resize applies the plan, and Over.
	resize(ctx context.Context, i *instance) error
	size(ctx context.Context, i *instance) (int64, error)
	bind(ctx context.Context, i *instance, b *binding, password string) error
	unbind(ctx context.Context, i *instance, b *binding) error

	// target is where the server listens; the zero value means that the instance
	// has no server.
	target(i *instance) forward.Endpoint
	// capacity is the maximum number of connections from apps, so that some are
	// left for the administrator.
	capacity(i *instance) int
	// credentials returns the credentials for an app; at is where it reaches the
	// server.
	credentials(i *instance, b *binding, at forward.Endpoint, password string) map[string]any

	start(ctx context.Context) error
	stop(leave bool)
}

// The maximum connections of a server that many instances share: of all clients,
// and of apps. The rest is for the administrator, and for clients on loopback.
const (
	serverConnections = 500
	appConnections    = 400
)

// The range that ports are taken from: outside of the one that systems give to
// outgoing connections, so that a server finds its port free after a restart.
const (
	lowPort  = 20000
	highPort = 32000
)

// owner returns the user that a server runs as, which must be able to enter its
// directory.
func (c Config) owner(name string) (*syscall.Credential, error) {
	owner, err := daemon.Unprivileged(name)
	if err != nil {
		return nil, err
	}
	return owner, daemon.CanEnter(c.Dir, owner)
}

// keptPort returns the port of a server: it is in the credentials of apps, so
// it is chosen once and kept in a file.
func keptPort(dir string, hosts ...netip.Addr) (int, error) {
	path := filepath.Join(dir, "port")
	if content, err := os.ReadFile(path); err == nil {
		if port, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil && port > 0 && port < 1<<16 {
			return port, nil
		}
	}
	port, err := freePort(hosts...)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	return port, daemon.WriteFile(path, []byte(strconv.Itoa(port)+"\n"), nil)
}

// freePort finds a port that is free on loopback and on the other addresses.
func freePort(hosts ...netip.Addr) (int, error) {
	hosts = append([]netip.Addr{forward.Loopback}, hosts...)
	for range 200 {
		port := lowPort + rand.IntN(highPort-lowPort) //nolint:gosec // a port is no secret
		free := true
		for _, h := range hosts {
			if !h.IsValid() {
				continue
			}
			l, err := net.Listen("tcp", netip.AddrPortFrom(h, uint16(port)).String()) //nolint:noctx // it does not wait
			if err != nil {
				free = false
				break
			}
			l.Close()
		}
		if free {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d", lowPort, highPort)
}
