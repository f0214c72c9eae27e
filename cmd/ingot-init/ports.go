package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// socket is an address on which a process listens.
type socket struct {
	address net.IP
	port    int
}

func compareSockets(a, b socket) int {
	return cmp.Or(cmp.Compare(a.port, b.port), bytes.Compare(a.address, b.address))
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
	// listening returns the sockets on which it listens, and whether these are its own: they
	// may be those of the whole instance. It is nil if that cannot be known.
	listening func() (all []socket, own bool)
	// taken reports whether only a program outside the instance listens on a port. It is nil
	// if that cannot be.
	taken func(port int) bool
	// used returns the processor time of its processes.
	used func() time.Duration
	// patient means that the user has set how long it may take to become healthy.
	patient bool
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
	if s.listening == nil {
		return err.Error()
	}
	all, _ := s.listening()
	return s.explainedBy(err, wanted, all)
}

// explainedBy is explained for a member that listens on the given sockets.
func (s subject) explainedBy(err error, wanted []int, all []socket) string {
	var closed *closedPort
	if !errors.As(err, &closed) {
		return err.Error()
	}
	who, fix := "app", "make it listen on the port in $PORT"
	if s.sidecar {
		who, fix = "sidecar", "make it listen on the port that it declares in `ports`"
	}
	var ports, addresses []string
	slices.SortFunc(all, compareSockets)
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
	case slices.Contains(addresses, net.IPv4zero.String()): // since the check
		return err.Error()
	case len(addresses) > 0:
		return fmt.Sprintf("%s: the %s listens there at %s only; make it listen at 0.0.0.0", err, who,
			strings.Join(addresses, ", "))
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
		words = append(words, fmt.Sprintf("sidecar %s declares %s", strings.TrimPrefix(m.Name, "sidecar/"),
			strings.Join(ports, ", ")))
	}
	return strings.Join(words, "; ")
}
