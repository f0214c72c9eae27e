//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ingot/internal/platform/engine/container/network"
	"ingot/internal/platform/engine/local"
)

// Dial connects from inside the instance, also to its loopback. A unix socket is named by
// its path inside.
func (e *Engine) Dial(ctx context.Context, id, kind, address string) (net.Conn, error) {
	in, err := e.running(id)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(kind, "unix") {
		return dialUnix(ctx, in.Init, kind, address)
	}
	addresses, err := numeric(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	var errs []error
	for _, a := range addresses {
		conn, err := network.Within(in.Init, func() (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, kind, a)
		})
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// numeric returns the addresses to try. Names may resolve differently inside, and a lookup
// would use the host's name servers.
func numeric(address string) ([]string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, fmt.Errorf("port %q is not a number", port)
	}
	switch {
	case host == "" || host == "localhost":
		return []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}, nil
	case net.ParseIP(host) == nil:
		return nil, fmt.Errorf("host %q: an address is needed, or localhost", host)
	}
	return []string{address}, nil
}

// dialUnix connects to a unix socket of the instance. The path is resolved with the
// instance's root as root directory, so that no link in it leads to a socket of the host.
func dialUnix(ctx context.Context, p local.ProcessID, kind, path string) (net.Conn, error) {
	var d net.Dialer
	if strings.HasPrefix(path, "@") {
		return network.Within(p, func() (net.Conn, error) { return d.DialContext(ctx, kind, path) })
	}
	fd, err := openInside(p, path)
	if errors.Is(err, network.ErrEnded) {
		return nil, err
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: kind, Err: err}
	}
	defer unix.Close(fd)
	return d.DialContext(ctx, kind, "/proc/self/fd/"+strconv.Itoa(fd))
}

// openInside opens a path as a name only, with the instance's root as root directory.
func openInside(p local.ProcessID, path string) (int, error) {
	root, err := os.OpenFile("/proc/"+strconv.Itoa(p.PID)+"/root", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	if !p.Alive() {
		return 0, network.ErrEnded
	}
	fd, err := unix.Openat2(int(root.Fd()), path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return 0, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// hasShell reports whether an instance has /bin/sh. An error other than its absence is left
// to the caller.
func hasShell(p local.ProcessID) bool {
	fd, err := openInside(p, "/bin/sh")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	return unix.Close(fd) == nil
}
