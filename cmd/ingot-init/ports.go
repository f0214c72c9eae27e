package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// socket is an address on which a process listens.
type socket struct {
	address net.IP
	port    int
}

// closedPort means that a port of the instance refuses connections.
type closedPort struct {
	port int
	why  string
}

func (e *closedPort) Error() string {
	return fmt.Sprintf("port %d is not listening: %s", e.port, e.why)
}

// explained adds to the failure of a check where the app listens instead, if it
// does: most often it ignores PORT.
func explained(err error, wanted []int, listening func() []socket) string {
	var closed *closedPort
	if !errors.As(err, &closed) || listening == nil {
		return err.Error()
	}
	var ports, addresses []string
	all := listening()
	slices.SortFunc(all, func(a, b socket) int { return cmp.Compare(a.port, b.port) })
	for _, s := range all {
		switch {
		case s.port == closed.port:
			addresses = append(addresses, s.address.String())
		case !slices.Contains(wanted, s.port):
			ports = append(ports, strconv.Itoa(s.port))
		}
	}
	ports, addresses = slices.Compact(ports), slices.Compact(addresses)
	switch {
	case len(addresses) > 0:
		return fmt.Sprintf("%s: the app listens there at %s only; make it listen at 0.0.0.0", err, strings.Join(addresses, ", "))
	case len(ports) == 1:
		return fmt.Sprintf("%s: the app listens on port %s instead; make it listen on the port in $PORT", err, ports[0])
	case len(ports) > 1:
		return fmt.Sprintf("%s: the app listens on ports %s instead; make it listen on the port in $PORT", err, strings.Join(ports, ", "))
	}
	return err.Error()
}
