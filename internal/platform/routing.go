package platform

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
)

// CheckDomainName says what is wrong with the name of a new domain.
func CheckDomainName(name string) error {
	switch {
	case name == "":
		return fault.Invalid("Name can't be blank")
	case len(name) < 3 || len(name) > 253:
		return fault.Invalid("Name must be between 3 and 253 characters")
	case !strings.Contains(name, "."):
		return fault.Invalid("Name must contain at least one \".\"")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return fault.Invalid("Name must be a name, not an address")
	}
	for _, label := range strings.Split(name, ".") {
		if !validHostLabel(label) {
			return fault.Invalid("Name does not comply with RFC 1035 standards")
		}
	}
	return nil
}

func validHostLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
	})
}

// UsableIn reports whether routes of an organization may use the domain.
func UsableIn(d *Domain, orgGUID string) bool {
	return d.OrgGUID == "" || d.OrgGUID == orgGUID || slices.Contains(d.SharedOrgs, orgGUID)
}

// CheckRoute says what is wrong with a new route on a domain.
func CheckRoute(r *Route, d *Domain) error {
	if err := CheckOptionsFor(r.Options, d.Protocol()); err != nil {
		return err
	}
	if d.Protocol() == ProtocolTCP {
		return checkTCPRoute(r)
	}
	switch {
	case r.Port != 0:
		return fault.Invalid("Routes with protocol 'http' do not support ports.")
	case r.Host == "*" && d.OrgGUID == "" && r.Path != "":
		return fault.Invalid("Wildcard hosts with a path are not supported on shared domains")
	case r.Host == "" && d.OrgGUID == "":
		return fault.Invalid("Missing host. Routes in shared domains must have a host defined.")
	case r.Host != "" && r.Host != "*" && !validHostLabel(r.Host):
		return fault.Invalid("Host must be either \"*\" or contain only alphanumeric characters, \"_\", or \"-\"")
	case len(r.Host)+1+len(d.Name) > 253:
		return fault.Invalid("Host combined with domain name must be no more than 253 characters")
	case d.Internal && r.Host == "*":
		return fault.Invalid("Wildcard host names are not supported for internal domains.")
	case d.Internal && r.Path != "":
		return fault.Invalid("Paths are not supported for internal domains.")
	}
	return checkPath(r.Path)
}

func checkTCPRoute(r *Route) error {
	switch {
	case r.Host != "":
		return fault.Invalid("Hosts are not supported for TCP routes.")
	case r.Path != "":
		return fault.Invalid("Paths are not supported for TCP routes.")
	case r.Port <= 0:
		return fault.Invalid("Routes with protocol 'tcp' must specify a port.")
	}
	return nil
}

func checkPath(path string) error {
	switch {
	case path == "":
		return nil
	case path == "/":
		return fault.Invalid("Path cannot be a single slash")
	case !strings.HasPrefix(path, "/"):
		return fault.Invalid("Path must start with a slash")
	case strings.Contains(path, "?"):
		return fault.Invalid("Path cannot contain a question mark")
	case len(path) > 128:
		return fault.Invalid("Path must be less than 128 characters")
	case strings.ContainsAny(path, " #\\%") || strings.ContainsFunc(path, func(c rune) bool {
		return c < ' ' ||
			c > '~'
	}) || strings.Contains(path, "//"):
		return fault.Invalid("Path is not a valid path of a URL")
	}
	return nil
}

// RouteURL is how people write the route.
func RouteURL(r *Route, d *Domain) string {
	url := d.Name
	if r.Host != "" {
		url = r.Host + "." + url
	}
	if r.Port != 0 {
		url += ":" + strconv.Itoa(r.Port)
	}
	return url + r.Path
}

// DestinationProtocol returns the protocol of a destination of a route: the given
// one, or the default of the route's protocol if it is empty.
func DestinationProtocol(r *Route, given string) (string, error) {
	allowed := []string{"http1", "http2"}
	if r.Protocol == ProtocolTCP {
		allowed = []string{ProtocolTCP}
	}
	switch {
	case given == "":
		return allowed[0], nil
	case !slices.Contains(allowed, given):
		return "", fault.Invalid(fmt.Sprintf("Cannot use '%s' protocol for %s routes; valid options are: [%s].", given,
			r.Protocol, strings.Join(allowed, ", ")))
	}
	return given, nil
}

// PathKey is the path of a route as the router compares it: two routes of a host
// with one key are one address.
func PathKey(path string) string { return strings.ToLower(strings.TrimRight(path, "/")) }
