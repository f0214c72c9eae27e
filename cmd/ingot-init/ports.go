package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/platform/initproto"
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

// subject is the member that a check is about.
type subject struct {
	sidecar bool
	// listening returns the sockets on which it listens; nil if that is not known.
	listening func() []socket
	// others says which ports other members declare, if any.
	others string
}

// String returns the beginning of a reason.
func (s subject) String() string {
	if s.sidecar {
		return "Sidecar"
	}
	return "Instance"
}

// explained adds to the failure of a check where the member listens instead, if it
// does: most often the app ignores PORT.
func (s subject) explained(err error, wanted []int) string {
	var closed *closedPort
	if !errors.As(err, &closed) || s.listening == nil {
		return err.Error()
	}
	who, fix := "app", "make it listen on the port in $PORT"
	if s.sidecar {
		who, fix = "sidecar", "make it listen on the port that it declares in `ports`"
	}
	var ports, addresses []string
	all := s.listening()
	slices.SortFunc(all, func(a, b socket) int { return cmp.Compare(a.port, b.port) })
	for _, at := range all {
		switch {
		case at.port == closed.port:
			addresses = append(addresses, at.address.String())
		case !slices.Contains(wanted, at.port):
			ports = append(ports, strconv.Itoa(at.port))
		}
	}
	ports, addresses = slices.Compact(ports), slices.Compact(addresses)
	switch {
	case len(addresses) > 0:
		return fmt.Sprintf("%s: the %s listens there at %s only; make it listen at 0.0.0.0", err, who, strings.Join(addresses, ", "))
	case s.others != "" && len(wanted) > 1 && closed.port != wanted[0]:
		return fmt.Sprintf("%s: no process of the app listens on port %d; %s", err, closed.port, s.others)
	case len(ports) == 1:
		return fmt.Sprintf("%s: the %s listens on port %s instead; %s", err, who, ports[0], fix)
	case len(ports) > 1:
		return fmt.Sprintf("%s: the %s listens on ports %s instead; %s", err, who, strings.Join(ports, ", "), fix)
	}
	return err.Error()
}

// declared says which ports the sidecars of a spec declare.
func declared(s initproto.Spec) string {
	var words []string
	for _, m := range s.Members {
		if len(m.Ports) == 0 {
			continue
		}
		var ports []string
		for _, n := range m.Ports {
			ports = append(ports, strconv.Itoa(n))
		}
		words = append(words, fmt.Sprintf("sidecar %s declares %s", strings.TrimPrefix(m.Name, "sidecar/"), strings.Join(ports, ", ")))
	}
	return strings.Join(words, "; ")
}
