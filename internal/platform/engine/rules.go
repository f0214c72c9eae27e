package engine

import (
	"context"
	"strings"

	"ingot/internal/platform"
)

// Enforcer is an engine that enforces rules for the connections of its instances. What no
// rule allows is refused, but for the platform itself and the Reach of a Spec.
type Enforcer interface {
	// Enforce replaces the rules of all instances, running or to be started, in one step.
	// Connections that exist stay. Until the first call an engine uses the rules that it
	// had before the server was restarted.
	Enforce(ctx context.Context, r Rules) error
}

// Rules are what instances may connect to.
type Rules struct {
	// Groups are the security groups, by guid.
	Groups map[string]Group `json:"groups"`
	// Zones are the guids of the groups of the zones that have their own groups. Those
	// of all others are those of the zone without a space.
	Zones map[Zone][]string `json:"zones"`
	// Policies allow connections between instances of apps.
	Policies []platform.NetworkPolicy `json:"policies"`
}

// Group is a security group.
type Group struct {
	Name  string                  `json:"name"`
	Rules []platform.SecurityRule `json:"rules"`
}

// GroupsOf returns the guids of the groups of a zone.
func (r Rules) GroupsOf(z Zone) []string {
	if own, ok := r.Zones[z]; ok {
		return own
	}
	return r.Zones[Zone{Staging: z.Staging}]
}

// Zone is where an instance runs: in a space, as an app or task, or as a build. It decides
// which groups count for it.
type Zone struct {
	Space   string
	Staging bool
}

// MarshalText implements encoding.TextMarshaler.
func (z Zone) MarshalText() ([]byte, error) {
	if z.Staging {
		return []byte("staging/" + z.Space), nil
	}
	return []byte("running/" + z.Space), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (z *Zone) UnmarshalText(text []byte) error {
	kind, space, _ := strings.Cut(string(text), "/")
	*z = Zone{space, kind == "staging"}
	return nil
}
