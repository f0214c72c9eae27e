package domaincheck

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
	"ingot/internal/notify/mail/mtasts"
	"ingot/internal/notify/mail/smtp"
)

// Relay is a mail server of the operator.
type Relay struct {
	Host string // without port
	// Encryption connects to it.
	Encryption func(context.Context) (smtp.Encryption, error)
}

// tls looks whether mail is encrypted on the way to the mail servers. The worst finding is that
// of all.
func (c *checker) tls(ctx context.Context) finding {
	if c.Host == "" {
		return finding{Check: "tls", Status: warning, Message: "no mail server is set (--smtp-url): mail is kept in the " +
			"mailbox of this server, and what follows from a mail server was not checked"}
	}
	found := make([]finding, len(c.Relays))
	var all background.WaitGroup
	for i, r := range c.Relays {
		all.Go("check of a mail server", func() { found[i] = c.relay(ctx, r) })
	}
	all.Wait()
	return worst(found)
}

// worst returns the first of the most serious findings, with the messages of all that are as serious.
func worst(found []finding) finding {
	var out finding
	for _, status := range []notify.DomainStatus{problem, warning, fine} {
		for _, f := range found {
			switch {
			case f.Status != status:
			case out.Check == "":
				out = f
			default:
				out.Message += "; " + f.Message
			}
		}
		if out.Check != "" {
			break
		}
	}
	return out
}

func (c *checker) relay(ctx context.Context, r Relay) finding {
	f := finding{Check: "tls", Status: problem}
	e, err := r.Encryption(ctx)
	switch {
	case err != nil:
		f.Message = err.Error()
	case e.Encrypted && e.Required:
		f.Status, f.Message = fine, "the connection to "+r.Host+" is encrypted, and its certificate is required"
	case c.local(ctx, r.Host):
		f.Status, f.Message = fine, "the mail server runs on this machine"
	case !e.Encrypted:
		f.Message = "the connection to " + r.Host + " is not encrypted: enable STARTTLS there, or use smtps:// in --smtp-url"
	case e.Invalid != nil:
		f.Status = warning
		f.Message = fmt.Sprintf("the connection to %s is encrypted, but an attacker on the way can read mail: the "+
			"certificate is not checked, and not valid (%v). Replace it, and add starttls=required to the URL", r.Host,
			e.Invalid)
	default:
		f.Status = warning
		f.Message = "the connection to " + r.Host + " is encrypted now, with a valid certificate, but an attacker on " +
			"the way can prevent that: add starttls=required to the URL, so that mail waits instead"
	}
	return f
}

// local reports whether a mail server is on this machine.
func (c *checker) local(ctx context.Context, host string) bool {
	addresses := c.addresses
	if host != c.Host {
		other := &checker{Options: Options{Host: host, Resolver: c.Resolver}}
		other.findServer(ctx)
		addresses = other.addresses
	}
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return !a.IsLoopback() })
}

// Policies finds the policy for mail to a domain; *mtasts.Checker implements it.
type Policies interface {
	URL(domain string) string
	Policy(ctx context.Context, domain string) (mtasts.Policy, error)
	Certificate(ctx context.Context, host string) error
}

const (
	// shortAge is how long a policy has to be remembered to protect mail that is sent rarely.
	shortAge = 7 * 24 * time.Hour
	// manyServers is how many mail servers of a domain are asked for their certificates.
	manyServers = 10
)

// mtasts looks for the policy for mail to the domain (answers and bounces), and whether the
// domain's mail servers fulfill it. A policy that is enforced and not fulfilled loses mail.
func (c *checker) mtasts(ctx context.Context) finding {
	f := finding{Check: "mta-sts", Status: warning}
	if c.Policies == nil {
		return finding{}
	}
	name := "_mta-sts." + c.Domain
	texts, err := c.Resolver.LookupTXT(ctx, name)
	if err != nil && !isMissing(err) {
		return unknown("mta-sts", name, err)
	}
	_, err = mtasts.ParseRecord(texts)
	switch {
	case errors.Is(err, mtasts.ErrNoRecord):
		f.Status, f.Message = fine, "no policy asks senders to encrypt mail to "+c.Domain+", which is optional"
		return f
	case err != nil:
		f.Message = fmt.Sprintf("senders ignore the policy: %v, at %s", err, name)
		f.Record = &notify.DNSRecord{Name: name, Type: "TXT",
			Value: "v=STSv1; id=" + time.Now().UTC().Format("20060102150405")}
		return f
	}
	policy, err := c.Policies.Policy(ctx, c.Domain)
	if err != nil {
		f.Message = fmt.Sprintf("senders cannot use the policy at %s: %v", c.Policies.URL(c.Domain), err)
		return f
	}
	return c.judge(ctx, policy)
}

// judge compares a policy with the mail servers of the domain.
func (c *checker) judge(ctx context.Context, policy mtasts.Policy) finding {
	f := finding{Check: "mta-sts", Status: fine, Message: "the policy's mode is " + string(policy.Mode)}
	if policy.Mode == mtasts.None {
		f.Message += ": senders treat mail as if there were none"
		return f
	}
	servers, err := c.Resolver.LookupMX(ctx, c.Domain)
	if err != nil && !isMissing(err) {
		return unknown("mta-sts", c.Domain, err)
	}
	broken := []string{}
	bad := func(format string, args ...any) {
		broken = append(broken, fmt.Sprintf(format, args...))
	}
	var names []string
	for _, mx := range servers {
		if host := strings.TrimSuffix(mx.Host, "."); policy.Matches(host) {
			names = append(names, host)
		} else {
			bad("the mail server %s is not in the policy: add the line \"mx: %s\", and change the id in the DNS", host, host)
		}
	}
	if len(servers) == 0 {
		bad("%s has no MX record, and the policy names %s", c.Domain, strings.Join(policy.MX, ", "))
	}
	invalid, unasked := c.certificates(ctx, names)
	for _, why := range invalid {
		bad("%s", why)
	}
	switch {
	case len(broken) > 0 && policy.Mode == mtasts.Enforce:
		f.Status = problem
		f.Message += ", so senders do not deliver what does not fulfill it: " + strings.Join(broken, "; ")
	case len(broken) > 0:
		f.Status = warning
		f.Message += ", and with enforce, mail would be lost: " + strings.Join(broken, "; ")
	case len(unasked) > 0:
		f.Status = warning
		f.Message += ", and its mail servers' names are right; certificates were not checked: " +
			strings.Join(unasked, "; ")
	case policy.MaxAge < shortAge:
		f.Status = warning
		f.Message += fmt.Sprintf(", and its mail servers fulfill it, but senders forget it after %v: let max_age be 604800 "+
			"(a week) or more", policy.MaxAge)
	case policy.Mode == mtasts.Testing:
		return c.reports(ctx, f)
	default:
		f.Message += ", and " + strings.Join(names, ", ") + " fulfill it"
	}
	return f
}

// certificates asks mail servers for their certificates, and returns what is wrong and which could not be asked.
func (c *checker) certificates(ctx context.Context, names []string) (invalid, unasked []string) {
	names = names[:min(len(names), manyServers)]
	var mu sync.Mutex
	var all background.WaitGroup
	for _, host := range names {
		all.Go("check of a certificate", func() {
			err := c.Policies.Certificate(ctx, host)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, mtasts.ErrUnreachable), err != nil && ctx.Err() != nil:
				unasked = append(unasked, fmt.Sprintf("%s: %v", host, err))
			case err != nil:
				invalid = append(invalid, fmt.Sprintf("%s has no encryption with a valid certificate (%v)", host, err))
			}
		})
	}
	all.Wait()
	slices.Sort(invalid)
	slices.Sort(unasked)
	return invalid, unasked
}

// reports looks for the address that gets reports (RFC 8460), without which testing shows nothing.
func (c *checker) reports(ctx context.Context, f finding) finding {
	name := "_smtp._tls." + c.Domain
	records, err := c.texts(ctx, name, "v=TLSRPTv1")
	switch {
	case err != nil:
		return unknown("mta-sts", name, err)
	case len(records) == 1:
		f.Message += ", and its mail servers fulfill it: if the reports agree, change it to enforce"
		return f
	}
	f.Status = warning
	f.Message += ", and its mail servers fulfill it, but no one gets the reports of senders"
	f.Record = &notify.DNSRecord{Name: name, Type: "TXT", Value: "v=TLSRPTv1; rua=mailto:postmaster@" + c.Domain}
	return f
}
