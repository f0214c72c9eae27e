package platform

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The protocols of routes, and of destinations beside http1 and http2.
const (
	ProtocolHTTP = "http"
	ProtocolTCP  = "tcp"
)

// RouterGroup is the group of routers that serve the TCP routes of a domain, with
// the ports that routes can have. The zero value means that there is none.
type RouterGroup struct {
	GUID  string
	Name  string
	Ports PortSet
}

// DefaultTCPGroup returns the router group of TCP routes. Its guid is the same on
// every server of an installation.
func DefaultTCPGroup(ports PortSet) RouterGroup {
	if len(ports) == 0 {
		return RouterGroup{}
	}
	return RouterGroup{GUID: "7b3c8a52-1f0e-4d6b-9a47-0c5de2f1b6a4", Name: "default-tcp", Ports: ports}
}

// PortSet is a set of ports: sorted ranges, both ends included, that do not overlap.
type PortSet []PortRange

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last int }

// minTCPPort is the lowest port of a TCP route, as in Cloud Foundry.
const minTCPPort = 1024

// ParsePorts parses a list of ports and ranges, such as "1024-1123,2000". "none" and
// an empty text are the empty set.
func ParsePorts(text string) (PortSet, error) {
	if text = strings.TrimSpace(text); text == "" || text == "none" {
		return nil, nil
	}
	var set PortSet
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		first, err1 := strconv.Atoi(strings.TrimSpace(low))
		last, err2 := strconv.Atoi(strings.TrimSpace(high))
		switch {
		case err1 != nil || err2 != nil:
			return nil, fmt.Errorf("%q is not a port or a range of ports, for example 1024-1123", part)
		case first < minTCPPort || last > 65535:
			return nil, fmt.Errorf("%q is not between %d and 65535", part, minTCPPort)
		case first > last:
			return nil, fmt.Errorf("the range %q ends before it begins", part)
		}
		set = append(set, PortRange{first, last})
	}
	slices.SortFunc(set, func(a, b PortRange) int { return a.First - b.First })
	for i := 1; i < len(set); i++ {
		if set[i].First <= set[i-1].Last {
			return nil, fmt.Errorf("the ranges %s and %s overlap", set[i-1], set[i])
		}
	}
	return set, nil
}

// Contains reports whether a port is in the set.
func (s PortSet) Contains(port int) bool {
	return slices.ContainsFunc(s, func(r PortRange) bool { return r.First <= port && port <= r.Last })
}

// Count returns the number of ports.
func (s PortSet) Count() (n int) {
	for _, r := range s {
		n += r.Last - r.First + 1
	}
	return n
}

// At returns the port at a position, from 0 to Count()-1.
func (s PortSet) At(i int) int {
	for _, r := range s {
		if n := r.Last - r.First + 1; i >= n {
			i -= n
		} else {
			return r.First + i
		}
	}
	return 0
}

func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return strconv.Itoa(r.First) + "-" + strconv.Itoa(r.Last)
}

// String returns the set as ParsePorts reads it.
func (s PortSet) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}
