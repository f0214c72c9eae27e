package settings

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Address checks a listen address.
func Address(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not HOST:PORT, for example 127.0.0.1:8080", s)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q has no port between 0 and 65535", s)
	}
	if strings.ContainsAny(host, " /@") {
		return fmt.Errorf("%q has no valid host", s)
	}
	return nil
}

// OptionalAddress is like Address, but allows none.
func OptionalAddress(s string) error {
	if s == "" {
		return nil
	}
	return Address(s)
}

// HostName accepts a host name. An address is refused: names below it, such
// as api.DOMAIN, could not exist.
func HostName(s string) error {
	if _, err := netip.ParseAddr(s); err == nil {
		return fmt.Errorf("%q is an address; a name is needed, because api.DOMAIN and others are names below it", s)
	}
	if s == "" || len(s) > 200 {
		return errors.New("a host name of at most 200 characters is needed")
	}
	for _, label := range strings.Split(s, ".") {
		if !validLabel(label) {
			return fmt.Errorf("%q is not a host name", s)
		}
	}
	return nil
}

func validLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-'
	})
}

// URL checks a URL, which may be missing. It never quotes the value, which may contain a password.
func URL(s string, schemes ...string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	example := schemes[0] + "://host:port"
	switch {
	case err != nil:
		return fmt.Errorf("it is not a URL, for example %s", example)
	case !slices.Contains(schemes, u.Scheme):
		return fmt.Errorf("it must begin with %s://", strings.Join(schemes, ":// or "))
	case u.Hostname() == "":
		return fmt.Errorf("the host is missing, for example %s", example)
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("it must not have a query or a fragment")
	case schemes[0] == "http" && u.User != nil:
		return errors.New("it must not hold a user name or password")
	}
	return nil
}

// ServerURL checks the URL of a database server. It never quotes the value, which contains a password.
func ServerURL(s string, schemes ...string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Hostname() == "" || u.User.Username() == "" {
		return fmt.Errorf("it must be %s://USER:PASSWORD@HOST:PORT, with special characters percent-encoded", schemes[0])
	}
	return nil
}

// Plain returns a URL without a slash at its end and without the port that its scheme has anyway, as clients write it
// in the header Host.
func Plain(s string) string {
	s = strings.TrimRight(s, "/")
	u, err := url.Parse(s)
	if err != nil || u.Scheme+u.Port() != "http80" && u.Scheme+u.Port() != "https443" {
		return s
	}
	u.Host = strings.TrimSuffix(u.Host, ":"+u.Port())
	return u.String()
}
