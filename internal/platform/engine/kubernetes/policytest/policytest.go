package policytest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
)

// Peer is one end of a connection: a Pod, or an address outside of the cluster, which
// has no namespace.
type Peer struct {
	Namespace       string
	NamespaceLabels map[string]string
	Labels          map[string]string
	IP              netip.Addr
	Ports           map[string]int // ports of the Pod's containers by name
}

// Policy is a NetworkPolicy.
type Policy struct {
	Metadata struct {
		Name, Namespace string
	} `json:"metadata"`
	Spec struct {
		PodSelector selector
		PolicyTypes []string
		Ingress     []rule
		Egress      []rule
	} `json:"spec"`
}

type rule struct {
	From, To []peer
	Ports    []port
}

type peer struct {
	PodSelector, NamespaceSelector *selector
	IPBlock                        *struct {
		CIDR   string
		Except []string
	}
}

type port struct {
	Protocol string
	Port     any // a number or a name
	EndPort  int
}

type selector struct {
	MatchLabels      map[string]string
	MatchExpressions []struct {
		Key, Operator string
		Values        []string
	}
}

// Parse reads a NetworkPolicy in JSON.
func Parse(text []byte) (Policy, error) {
	var p Policy
	err := json.Unmarshal(text, &p)
	return p, err
}

func (s selector) selects(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		got, has := labels[e.Key]
		var ok bool
		switch e.Operator {
		case "In":
			ok = has && slices.Contains(e.Values, got)
		case "NotIn":
			ok = !has || !slices.Contains(e.Values, got)
		case "Exists":
			ok = has
		case "DoesNotExist":
			ok = !has
		default:
			panic(fmt.Sprintf("unknown operator %q", e.Operator))
		}
		if !ok {
			return false
		}
	}
	return true
}

func (p peer) matches(own string, other Peer) bool {
	if p.IPBlock != nil {
		// Whether a block matches Pods depends on the network plugin: assume the worse.
		in := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(other.IP) }
		return in(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, in)
	}
	if other.Namespace == "" {
		return false
	}
	if p.NamespaceSelector == nil {
		return other.Namespace == own && p.PodSelector.selects(other.Labels)
	}
	return p.NamespaceSelector.selects(other.NamespaceLabels) && (p.PodSelector == nil ||
		p.PodSelector.selects(other.Labels))
}

func (p port) matches(target Peer, protocol string, number int) bool {
	if want := p.Protocol; want != protocol && (want != "" || protocol != "TCP") {
		return false
	}
	switch at := p.Port.(type) {
	case nil:
		return true
	case string:
		return target.Ports[at] == number
	case float64:
		return number == int(at) || p.EndPort > 0 && int(at) <= number && number <= p.EndPort
	}
	panic(fmt.Sprintf("port %v", p.Port))
}

// Allowed reports whether a connection is allowed: by the egress of its source and by
// the ingress of its target.
func Allowed(policies []Policy, from, to Peer, protocol string, number int) bool {
	return oneWay(policies, "Egress", from, to, to, protocol, number) && oneWay(policies, "Ingress", to, from, to,
		protocol, number)
}

// oneWay reports whether the policies of a Pod allow one direction. A Pod that no policy
// selects is not restricted.
func oneWay(policies []Policy, direction string, own, other, target Peer, protocol string, number int) bool {
	if own.Namespace == "" {
		return true
	}
	restricted := false
	for _, p := range policies {
		if p.Metadata.Namespace != own.Namespace || !p.Spec.PodSelector.selects(own.Labels) || !p.is(direction) {
			continue
		}
		restricted = true
		rules := p.Spec.Ingress
		if direction == "Egress" {
			rules = p.Spec.Egress
		}
		for _, r := range rules {
			peers := slices.Concat(r.From, r.To)
			if len(peers) > 0 && !slices.ContainsFunc(peers, func(p peer) bool { return p.matches(own.Namespace, other) }) {
				continue
			}
			if len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p port) bool {
				return p.matches(target, protocol,
					number)
			}) {
				return true
			}
		}
	}
	return !restricted
}

func (p Policy) is(direction string) bool {
	if len(p.Spec.PolicyTypes) == 0 {
		return direction == "Ingress" || len(p.Spec.Egress) > 0
	}
	return slices.Contains(p.Spec.PolicyTypes, direction)
}
