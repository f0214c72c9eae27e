package platform

import (
	"fmt"

	"ingot/internal/base/fault"
)

// NetworkPolicy allows the instances of one app to connect to those of another.
type NetworkPolicy struct {
	Resource  `json:"-"`
	SourceApp string `json:"source"`
	DestApp   string `json:"destination"`
	Protocol  string `json:"protocol"` // tcp or udp
	FirstPort int    `json:"first_port"`
	LastPort  int    `json:"last_port"`
}

// MaxPolicies is how many policies with one source users who are not network
// administrators may create.
const MaxPolicies = 150

// CheckNetworkPolicies says what is wrong with the policies of a request, in the
// words of Cloud Foundry's policy server.
func CheckNetworkPolicies(list []NetworkPolicy) error {
	problem := func(p NetworkPolicy) string {
		switch {
		case p.SourceApp == "":
			return "missing source id"
		case p.DestApp == "":
			return "missing destination id"
		case p.Protocol != ProtocolTCP && p.Protocol != ProtocolUDP:
			return "invalid destination protocol, specify either udp or tcp"
		case p.FirstPort > p.LastPort:
			return fmt.Sprintf("invalid port range %d-%d, start must be less than or equal to end", p.FirstPort, p.LastPort)
		case p.FirstPort < 0:
			return fmt.Sprintf("invalid start port %d, must be in range 1-65535", p.FirstPort)
		case p.FirstPort == 0:
			return "missing start port"
		case p.LastPort > 65535:
			return fmt.Sprintf("invalid end port %d, must be in range 1-65535", p.LastPort)
		}
		return ""
	}
	if len(list) == 0 {
		return fault.New(fault.BadRequest, "mapper: validate policies: missing policies")
	}
	for _, p := range list {
		if text := problem(p); text != "" {
			return fault.New(fault.BadRequest, "mapper: validate policies: %s", text)
		}
	}
	return nil
}
