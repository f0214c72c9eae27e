package domaincheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

// The results, by short names.
type finding = notify.DomainFinding

const (
	fine    = notify.DomainOK
	warning = notify.DomainWarning
	problem = notify.DomainProblem
)

// Resolver is the part of net.Resolver that is used.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupMX(ctx context.Context, name string) ([]*net.MX, error)
	LookupIPAddr(ctx context.Context, host string) ([]net.IPAddr, error)
	LookupAddr(ctx context.Context, addr string) ([]string, error)
}

// Options are what is known of the sender.
type Options struct {
	// Domain is that of the sender's address.
	Domain string
	// Selector and Key are the name and the public key of DKIM signatures, Key as a record of
	// the DNS; both are empty if mail is not signed.
	Selector, Key string
	// Host is the mail server, without port; empty if mail is kept in the mailbox.
	Host string
	// Relays are all mail servers, in their order; the first is Host.
	Relays   []Relay
	Resolver Resolver // nil means that of the system
	// Policies looks at the policy for mail to the domain; nil means that it is not checked.
	Policies Policies
}

// timeout is for all checks together.
const timeout = 30 * time.Second

// checker is one run of Run.
type checker struct {
	Options
	addresses []netip.Addr // of the mail server
	addrError error
}

// Run does all checks.
func Run(ctx context.Context, o Options) notify.DomainReport {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	c := &checker{Options: o}
	c.findServer(ctx)
	checks := []func(context.Context) finding{c.spf, c.dkim, c.dmarc, c.mx, c.reverse, c.tls, c.mtasts}
	found := make([]finding, len(checks))
	var all background.WaitGroup
	for i, check := range checks {
		all.Go("check of a mail domain", func() { found[i] = check(ctx) })
	}
	all.Wait()
	found = slices.DeleteFunc(found, func(f finding) bool { return f.Check == "" }) // not to be checked here
	return notify.DomainReport{Domain: o.Domain, Findings: found}
}

// findServer looks up the addresses of the mail server.
func (c *checker) findServer(ctx context.Context) {
	if c.Host == "" {
		return
	}
	if addr, err := netip.ParseAddr(c.Host); err == nil {
		c.addresses = []netip.Addr{addr}
		return
	}
	list, err := c.Resolver.LookupIPAddr(ctx, c.Host)
	c.addrError = err
	for _, one := range list {
		if addr, ok := netip.AddrFromSlice(one.IP); ok {
			c.addresses = append(c.addresses, addr.Unmap())
		}
	}
}

// public returns the addresses that receivers may see. A server on a private network sends from
// another one, which is not known here.
func (c *checker) public() (list []netip.Addr) {
	for _, a := range c.addresses {
		if a.IsGlobalUnicast() && !a.IsPrivate() {
			list = append(list, a)
		}
	}
	return list
}

// texts returns the TXT records of a name that begin with a version.
func (c *checker) texts(ctx context.Context, name, version string) ([]string, error) {
	all, err := c.Resolver.LookupTXT(ctx, name)
	if isMissing(err) {
		return nil, nil
	}
	return slices.DeleteFunc(all, func(text string) bool {
		first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
		return !strings.EqualFold(strings.TrimSuffix(first, ";"), version)
	}), err
}

func isMissing(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// unknown is the finding of a lookup that failed.
func unknown(check, name string, err error) finding {
	return finding{Check: check, Status: warning,
		Message: fmt.Sprintf("%s could not be looked up, try again later: %v", name, err)}
}

// mx looks for where answers and bounces go.
func (c *checker) mx(ctx context.Context) finding {
	list, err := c.Resolver.LookupMX(ctx, c.Domain)
	switch {
	case isMissing(err) || err == nil && len(list) == 0:
		return finding{Check: "mx", Status: warning, Message: "no server receives mail for " + c.Domain +
			": answers and reports of mail that could not be delivered are lost, and some receivers reject such senders"}
	case err != nil:
		return unknown("mx", c.Domain, err)
	}
	var hosts []string
	for _, mx := range list {
		if mx.Host == "." {
			return finding{Check: "mx", Status: problem, Message: c.Domain +
				" says that it receives no mail (MX \".\"): many receivers reject senders that cannot be answered"}
		}
		hosts = append(hosts, strings.TrimSuffix(mx.Host, "."))
	}
	return finding{Check: "mx", Status: fine, Message: "answers go to " + strings.Join(hosts, ", ")}
}

// reverse looks for the name of the mail server's address, and for that address of the name.
func (c *checker) reverse(ctx context.Context) finding {
	list := c.public()
	if c.addrError != nil {
		return unknown("reverse", c.Host, c.addrError)
	}
	if len(list) == 0 {
		return finding{}
	}
	var names []string
	for _, addr := range list {
		found, err := c.Resolver.LookupAddr(ctx, addr.String())
		if err != nil && !isMissing(err) {
			return unknown("reverse", addr.String(), err)
		}
		name := c.confirmed(ctx, found, addr)
		if name == "" {
			return finding{Check: "reverse", Status: problem, Message: fmt.Sprintf("the mail server's address %s has no name "+
				"that leads back to it: many receivers reject its mail. Who gave you the address sets its PTR record", addr)}
		}
		names = append(names, name)
	}
	return finding{Check: "reverse", Status: fine, Message: "the mail server is " + strings.Join(names, ", ")}
}

// confirmed returns the first name that has the address.
func (c *checker) confirmed(ctx context.Context, names []string, addr netip.Addr) string {
	for _, name := range names {
		list, _ := c.Resolver.LookupIPAddr(ctx, name)
		for _, one := range list {
			if got, ok := netip.AddrFromSlice(one.IP); ok && got.Unmap() == addr {
				return strings.TrimSuffix(name, ".")
			}
		}
	}
	return ""
}
