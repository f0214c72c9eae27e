package platform

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ingot/internal/base/fault"
)

func TestParseSecurityRules(t *testing.T) {
	t.Parallel()
	const (
		ports = "Rules[0]: ports must be a valid single port, comma separated list of ports, or range or ports, formatted " +
			"as a string"
		target = "Rules[0]: destination must contain valid CIDR(s), IP address(es), or IP address range(s)"
	)
	tcp := func(ports string) string { return `{"protocol":"tcp","destination":"10.0.0.1","ports":` + ports + `}` }
	to := func(destination string) string { return `{"protocol":"all","destination":"` + destination + `"}` }
	for rule, want := range map[string]string{
		tcp(`"80"`): "", tcp(`"80, 443"`): "", tcp(`"1-65535"`): "", tcp(`"80,"`): "",
		tcp(`"0"`): ports, tcp(`"65536"`): ports, tcp(`"90-80"`): ports, tcp(`"80-80"`): ports, tcp(`"80,90-100"`): ports,
		tcp(`"x"`): ports, tcp(`80`): ports, tcp(`""`): ports,
		tcp(`null`):    "Rules[0]: ports are required for protocols of type TCP and UDP; " + ports,
		to("10.0.0.1"): "", to("10.0.0.0/8"): "", to("10.0.0.7/8"): "", to("10.0.0.1-10.0.0.1"): "", to("0.0.0.0/0"): "",
		to("1.1.1.1,2.2.2.2/24"): "",
		to("10.0.0.9-10.0.0.1"): "Rules[0]: beginning of IP address range is numerically greater than the end of " +
			"its range (range endpoints are inverted)",
		to("10.0.0.1-x"):                 "Rules[0]: destination IP address range is invalid",
		to("10.0.0.1-10.0.0.2-10.0.0.3"): target, to("nonsense"): target, to("10.0.0.0/33"): target, to("256.0.0.1"): target,
		to("fe80::1"): target, to("::/0"): target,
		to("010.0.0.1"):        "Rules[0]: destination octets cannot contain leading zeros",
		to("1.1.1.1,"):         "Rules[0]: empty destination specified in comma-delimited list",
		to(""):                 "Rules[0]: empty destination specified in comma-delimited list",
		to("1.1.1.1, 2.2.2.2"): "Rules[0]: destination must not contain whitespace",
		to(strings.Repeat("1.1.1.1,", 6000) +
			"1.1.1.1"): "Rules[0]: maximum destinations per rule exceeded - must be under 6000",
		`{"protocol":"all","destination":7}`: "Rules[0]: destination must be a string",
		`{"protocol":"all"}`: "Rules[0]: nil destination; destination must " +
			"be a comma-delimited list of valid CIDRs, IP addresses, or IP address ranges",
		`{"protocol":"all","destination":"1.1.1.1","ports":"80"}`: "Rules[0]: ports are not allowed for protocols " +
			"of type all",
		`{"protocol":"gre","destination":"1.1.1.1"}`: "Rules[0]: protocol must be 'tcp', 'udp', " +
			"'icmp', 'icmpv6' or 'all'",
		`{"destination":"1.1.1.1"}`: "Rules[0]: protocol must be 'tcp', 'udp', " +
			"'icmp', 'icmpv6' or 'all'",
		`{"protocol":"icmpv6","destination":"1.1.1.1"}`: "Rules[0]: icmpv6 cannot be used if " +
			"enable_ipv6 is false",
		`{"protocol":"icmp","destination":"1.1.1.1","type":-1,"code":255}`: "",
		`{"protocol":"icmp","destination":"1.1.1.1","type":-2,"code":256}`: "Rules[0]: code must be an integer between -1 " +
			"and 255 (inclusive); Rules[0]: type must be an integer between -1 and 255 (inclusive)",
		`{"protocol":"icmp","destination":"1.1.1.1","type":"8","code":0}`: "Rules[0]: type must be an integer between -1 " +
			"and 255 (inclusive)",
		`{"protocol":"icmp","destination":"1.1.1.1","code":0}`: "Rules[0]: type is required for protocols of " +
			"type ICMP; Rules[0]: type must be an integer between -1 and 255 (inclusive)",
		`{"protocol":"all","destination":"1.1.1.1","log":"yes"}`:     "Rules[0]: log must be a boolean",
		`{"protocol":"all","destination":"1.1.1.1","description":1}`: "Rules[0]: description must be a string",
		`{"protocol":"all","destination":"1.1.1.1","b":1,"a":2}`:     `Rules[0]: unknown field(s): ["a", "b"]`,
		`"text"`: "Rules[0]: must be an object",
	} {
		_, err := ParseSecurityRules(json.RawMessage("[" + rule + "]"))
		var got []string
		if err != nil {
			got = err.(*fault.Error).Messages() //nolint:forcetypeassert,errorlint // it is
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%.100s:\ngot  %q\nwant %q", rule, got, want)
		}
	}
	for _, raw := range []string{`{}`, `"x"`, `null`, `1`} {
		if _, err := ParseSecurityRules(json.RawMessage(raw)); err == nil ||
			!strings.Contains(err.Error(), "Rules must be an array") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestSecurityRuleMeaning(t *testing.T) {
	t.Parallel()
	r := SecurityRule{Destination: "10.1.2.3,10.1.2.0/23,0.0.0.0/0,10.0.0.1-10.0.0.9", Ports: "80, 443"}
	const want = "[{10.1.2.3 10.1.2.3} {10.1.2.0 10.1.3.255} {0.0.0.0 255.255.255.255} {10.0.0.1 10.0.0.9}] [80 443]"
	if got := fmt.Sprint(r.Ranges(), " ", r.PortRanges()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := fmt.Sprint(SecurityRule{Ports: "1-65535"}.PortRanges()); got != "[1-65535]" {
		t.Errorf("got %s, want [{1 65535}]", got)
	}
}
