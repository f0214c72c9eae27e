package platform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"ingot/internal/base/fault"
)

// SecurityGroup is a list of rules that say what instances may connect to: those
// of all spaces, or of the spaces it is bound to. What no rule of a group
// allows is refused.
type SecurityGroup struct {
	Resource
	Name  string
	Rules []SecurityRule
	// Running means that it counts for apps and tasks of all spaces, Staging for
	// their builds.
	Running, Staging bool
	// RunningSpaces and StagingSpaces are those that it is bound to.
	RunningSpaces, StagingSpaces []string
}

// SecurityRule allows connections to some destinations. It is stored and shown
// as the user wrote it; Ranges and PortRanges are what it means.
type SecurityRule struct {
	Protocol    string `json:"protocol"`
	Destination string `json:"destination"`
	Ports       string `json:"ports,omitempty"`
	Type        *int   `json:"type,omitempty"` // of ICMP; -1 is any
	Code        *int   `json:"code,omitempty"`
	Description string `json:"description,omitempty"`
	Log         *bool  `json:"log,omitempty"`
}

// The protocols of rules, beside ProtocolTCP.
const (
	ProtocolUDP  = "udp"
	ProtocolICMP = "icmp"
	ProtocolAll  = "all"
)

// AddressRange is the IPv4 addresses from First to Last.
type AddressRange struct{ First, Last netip.Addr }

// Limits of a security group. The first is Cloud Controller's.
const (
	maxDestinations = 6000    // of one rule
	maxRules        = 1000    // of one group
	maxRulesText    = 1 << 20 // bytes
)

// Ranges returns the destinations of a valid rule.
func (r SecurityRule) Ranges() (list []AddressRange) {
	for part := range strings.SplitSeq(r.Destination, ",") {
		if one, problem := parseRange(part); problem == "" {
			list = append(list, one)
		}
	}
	return list
}

// PortRanges returns the ports of a valid rule; none means all.
func (r SecurityRule) PortRanges() []PortRange {
	list, _ := parsePorts(r.Ports)
	return list
}

// CheckSecurityGroupName returns an error if a security group cannot have the
// name.
func CheckSecurityGroupName(name string) error {
	switch {
	case strings.TrimSpace(name) == "":
		return fault.Invalid("Name can't be blank")
	case utf8.RuneCountInString(name) > 250:
		return fault.Invalid("Name is too long (maximum is 250 characters)")
	case strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fault.Invalid("name format is invalid")
	}
	return nil
}

// ParseSecurityRules reads the rules of a request. The messages are Cloud
// Controller's.
func ParseSecurityRules(raw json.RawMessage) ([]SecurityRule, error) {
	var list []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return nil, fault.Invalid("Rules must be an array")
	}
	if len(list) > maxRules {
		return nil, fault.Invalid(fmt.Sprintf("Rules must have at most %d elements", maxRules))
	}
	if len(raw) > maxRulesText {
		return nil, fault.Invalid(fmt.Sprintf("rules length must not exceed %d characters", maxRulesText))
	}
	var problems []string
	rules := make([]SecurityRule, len(list))
	for i, one := range list {
		p := ruleParser{rule: &rules[i]}
		p.parse(one)
		for _, problem := range p.problems {
			problems = append(problems, fmt.Sprintf("Rules[%d]: %s", i, problem))
		}
	}
	return rules, fault.Invalid(problems...)
}

// ruleParser reads one rule.
type ruleParser struct {
	rule     *SecurityRule
	fields   map[string]any
	problems []string
}

func (p *ruleParser) refuse(wrong bool, problem string) {
	if wrong {
		p.problems = append(p.problems, problem)
	}
}

func (p *ruleParser) parse(raw json.RawMessage) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var fields any
	if d.Decode(&fields) != nil {
		p.refuse(true, "must be an object")
		return
	}
	var ok bool
	if p.fields, ok = fields.(map[string]any); !ok {
		p.refuse(true, "must be an object")
		return
	}
	var unknown []string
	for name := range p.fields {
		if !slices.Contains([]string{"protocol", "destination", "ports", "type", "code", "description", "log"}, name) {
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	slices.Sort(unknown)
	p.refuse(len(unknown) > 0, "unknown field(s): ["+strings.Join(unknown, ", ")+"]")

	p.rule.Protocol, _ = p.fields["protocol"].(string)
	known := slices.Contains([]string{ProtocolTCP, ProtocolUDP, ProtocolICMP, ProtocolAll}, p.rule.Protocol)
	// Instances have no IPv6, so icmpv6 is refused as where Cloud Foundry has none.
	p.refuse(!known && p.rule.Protocol != "icmpv6", "protocol must be 'tcp', 'udp', 'icmp', 'icmpv6' or 'all'")
	p.refuse(p.rule.Protocol == "icmpv6", "icmpv6 cannot be used if enable_ipv6 is false")
	p.destination()
	p.rule.Description, ok = p.fields["description"].(string)
	p.refuse(!ok && p.fields["description"] != nil, "description must be a string")
	if log, given := p.fields["log"]; given && log != nil {
		value, ok := log.(bool)
		p.refuse(!ok, "log must be a boolean")
		p.rule.Log = &value
	}
	switch p.rule.Protocol {
	case ProtocolTCP, ProtocolUDP:
		p.refuse(p.fields["ports"] == nil, "ports are required for protocols of type TCP and UDP")
		p.rule.Ports, _ = p.fields["ports"].(string)
		_, ok := parsePorts(p.rule.Ports)
		p.refuse(!ok || p.rule.Ports == "",
			"ports must be a valid single port, comma separated list of ports, or range or ports, formatted as a string")
	case ProtocolICMP:
		p.rule.Code, p.rule.Type = p.icmp("code"), p.icmp("type")
	case ProtocolAll:
		p.refuse(p.fields["ports"] != nil, "ports are not allowed for protocols of type all")
	}
}

func (p *ruleParser) icmp(name string) *int {
	given := p.fields[name]
	p.refuse(given == nil, name+" is required for protocols of type ICMP")
	number, _ := given.(json.Number)
	n, err := strconv.Atoi(number.String())
	if err != nil || n < -1 || n > 255 {
		p.refuse(true, name+" must be an integer between -1 and 255 (inclusive)")
		return nil
	}
	return &n
}

func (p *ruleParser) destination() {
	given := p.fields["destination"]
	text, ok := given.(string)
	switch {
	case given == nil:
		p.refuse(true, "nil destination; destination must be a comma-delimited list of valid CIDRs, IP addresses, or IP "+
			"address ranges")
		return
	case !ok:
		p.refuse(true, "destination must be a string")
		return
	case strings.ContainsFunc(text, unicode.IsSpace):
		p.refuse(true, "destination must not contain whitespace")
		return
	}
	p.rule.Destination = text
	parts := strings.Split(text, ",")
	if len(parts) > maxDestinations {
		p.refuse(true, fmt.Sprintf("maximum destinations per rule exceeded - must be under %d", maxDestinations))
		return
	}
	for _, part := range parts {
		_, problem := parseRange(part)
		p.refuse(problem != "", problem)
	}
}

// parseRange reads an address, a network such as 10.0.0.0/8 or a range such as
// 10.0.0.1-10.0.0.9.
func parseRange(text string) (r AddressRange, problem string) {
	const invalid = "destination must contain valid CIDR(s), IP address(es), or IP address range(s)"
	if text == "" {
		return r, "empty destination specified in comma-delimited list"
	}
	for octet := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '.' || c == '-' }) {
		if address, _, _ := strings.Cut(octet, "/"); len(address) > 1 && address[0] == '0' && strings.Contains(text, ".") {
			return r, "destination octets cannot contain leading zeros"
		}
	}
	ends := strings.Split(text, "-")
	switch len(ends) {
	case 1:
		p, err := netip.ParsePrefix(text)
		if err != nil {
			a, err := netip.ParseAddr(text)
			if err != nil {
				return r, invalid
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if !p.Addr().Is4() {
			return r, invalid
		}
		return rangeOf(p), ""
	case 2:
		var errs [2]error
		r.First, errs[0] = netip.ParseAddr(ends[0])
		r.Last, errs[1] = netip.ParseAddr(ends[1])
		if errs[0] != nil || errs[1] != nil || !r.First.Is4() || !r.Last.Is4() {
			return AddressRange{}, "destination IP address range is invalid"
		}
		if r.Last.Less(r.First) {
			return AddressRange{},
				"beginning of IP address range is numerically greater than the end of its range (range endpoints are inverted)"
		}
		return r, ""
	}
	return r, invalid
}

// rangeOf returns the addresses of an IPv4 network.
func rangeOf(p netip.Prefix) AddressRange {
	last := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	return AddressRange{p.Masked().Addr(), netip.AddrFrom4(last)}
}

// parsePorts reads a port, a list of ports or a range of ports. It reports
// false for invalid text; empty text means no ports.
func parsePorts(text string) ([]PortRange, bool) {
	port := func(s string) (int, bool) {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 16)
		return int(n), err == nil && n > 0 //nolint:gosec // of 16 bits
	}
	if text == "" {
		return nil, true
	}
	if first, last, ok := strings.Cut(text, "-"); ok {
		a, valid := port(first)
		b, also := port(last)
		return []PortRange{{a, b}}, valid && also && a < b
	}
	var list []PortRange
	for part := range strings.SplitSeq(strings.TrimRight(text, ","), ",") {
		n, ok := port(part)
		if !ok {
			return nil, false
		}
		list = append(list, PortRange{n, n})
	}
	return list, true
}
