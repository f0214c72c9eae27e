package platform

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
)

// The options of a route. Those of the balancing "hash" need a feature flag, and
// the last is for TCP routes; Cloud Foundry does not have it.
const (
	OptionLoadBalancing = "loadbalancing"
	OptionHashHeader    = "hash_header"
	OptionHashBalance   = "hash_balance"
	OptionProxyProtocol = "proxy_protocol"

	balancingHash = "hash"
)

// proxyProtocols are the values of OptionProxyProtocol: the versions of the PROXY
// protocol with which the app gets the address of its client.
var proxyProtocols = []string{"v1", "v2"}

// RouteOptionNames are the options that a route can have.
func RouteOptionNames(hash bool) []string {
	if hash {
		return []string{OptionLoadBalancing, OptionHashHeader, OptionHashBalance, OptionProxyProtocol}
	}
	return []string{OptionLoadBalancing, OptionProxyProtocol}
}

// CheckOptionsFor returns an error if options are not for routes of a protocol.
func CheckOptionsFor(options map[string]string, protocol string) error {
	switch {
	case protocol != ProtocolTCP && options[OptionProxyProtocol] != "":
		return fault.Invalid("Options Proxy protocol can only be set for TCP routes")
	case protocol == ProtocolTCP && options[OptionLoadBalancing] == balancingHash:
		return fault.Invalid("Options Loadbalancing cannot be 'hash' for TCP routes, which have no headers")
	}
	return nil
}

// LoadBalancings are the values of the option loadbalancing.
func LoadBalancings(hash bool) []string {
	if hash {
		return []string{"round-robin", "least-connection", balancingHash}
	}
	return []string{"round-robin", "least-connection"}
}

// CheckRouteOptions returns what is wrong with options that a user sets, in Cloud
// Foundry's words. A nil value removes an option. Unknown names and values of
// loadbalancing are not checked: the API and manifests report them in different
// words.
func CheckRouteOptions(options map[string]any) (problems []string) {
	other := options[OptionLoadBalancing] != nil && options[OptionLoadBalancing] != balancingHash
	if v := options[OptionHashHeader]; !blank(v) {
		switch header, ok := v.(string); {
		case !ok:
			problems = append(problems, "Hash header must be a string")
		case len(header) > 128:
			problems = append(problems, "Hash header must be at most 128 characters")
		case other:
			problems = append(problems, "Hash header can only be set when loadbalancing is hash")
		}
	}
	if v := options[OptionProxyProtocol]; !blank(v) && !slices.Contains(proxyProtocols, fmt.Sprint(v)) {
		problems = append(problems, "Proxy protocol must be one of '"+strings.Join(proxyProtocols, ", ")+"' if present")
	}
	if v := options[OptionHashBalance]; !blank(v) {
		switch n, ok := number(v); {
		case len(fmt.Sprint(v)) > 16:
			problems = append(problems, "Hash balance must be at most 16 characters")
		case !ok:
			problems = append(problems, "Hash balance must be a numeric value")
		case n != 0 && (n < 1.1 || n > 10):
			problems = append(problems, "Hash balance must be either 0 or between 1.1 and 10.0")
		case other:
			problems = append(problems, "Hash balance can only be set when loadbalancing is hash")
		}
	}
	return problems
}

// MergeRouteOptions applies checked options to those that a route has; nil
// removes one, and those of "hash" go with it.
func MergeRouteOptions(have map[string]string, patch map[string]any) (map[string]string, error) {
	merged := maps.Clone(have)
	if merged == nil {
		merged = map[string]string{}
	}
	for name, v := range patch {
		n, isNumber := number(v)
		switch {
		case blank(v):
			delete(merged, name)
		case name == OptionHashBalance && isNumber:
			merged[name] = strconv.FormatFloat(math.Round(n*10)/10, 'f', 1, 64)
		default:
			merged[name] = fmt.Sprint(v)
		}
	}
	if merged[OptionLoadBalancing] != balancingHash {
		delete(merged, OptionHashHeader)
		delete(merged, OptionHashBalance)
	} else if merged[OptionHashHeader] == "" {
		return nil, fault.Invalid("Hash header must be present when loadbalancing is set to hash.")
	}
	return merged, nil
}

// UnknownRouteOptions are the names that are no option, sorted.
func UnknownRouteOptions(options map[string]any, hash bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(options)), func(name string) bool {
		return slices.Contains(RouteOptionNames(hash), name)
	})
}

func blank(v any) bool {
	s, isText := v.(string)
	return v == nil || isText && strings.TrimSpace(s) == ""
}

// number reads a number, or the text of one.
func number(v any) (n float64, ok bool) {
	switch v := v.(type) {
	case float64:
		return v, !math.IsNaN(v)
	case int:
		return float64(v), true
	case uint64:
		return float64(v), true
	case int64:
		return float64(v), true
	case string:
		n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return n, err == nil && !math.IsNaN(n)
	}
	return 0, false
}
