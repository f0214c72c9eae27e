//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"ingot/internal/base/background"
)

// occupyTime is how long a server waits for the name of its network: another one has it while it
// removes what a deleted engine left, and a process that is just being started may have a copy.
const occupyTime = 10 * time.Second

var errOccupied = errors.New("a server uses the network")

// occupy holds a name in the network namespace of the instances, which says that a server uses the
// network with that hash, or is removing it. Servers may have different mount namespaces (systemd's
// PrivateTmp), so that a root that one of them does not see can still be in use.
func occupy(hash string) (*net.UnixConn, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: "@" + NamePrefix + hash})
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, errOccupied
	}
	if err != nil {
		return nil, fmt.Errorf("the name of network %s: %w", hash, err)
	}
	return conn, nil
}

// awaitOccupy is like occupy, and waits while the name is taken.
func awaitOccupy(hash string) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), occupyTime)
	defer cancel()
	for {
		conn, err := occupy(hash)
		if !errors.Is(err, errOccupied) || !background.Sleep(ctx, 5*time.Millisecond) {
			return conn, err
		}
	}
}
