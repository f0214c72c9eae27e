package domaincheck

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"blitiri.com.ar/go/spf"
	"github.com/emersion/go-msgauth/dmarc"
	"golang.org/x/net/publicsuffix"

	"ingot/internal/notify"
)

// spf looks whether the mail server may send for the domain.
func (c *checker) spf(ctx context.Context) finding {
	f := finding{Check: "spf", Status: problem}
	records, err := c.texts(ctx, c.Domain, "v=spf1")
	if err != nil {
		return unknown("spf", c.Domain, err)
	}
	switch len(records) {
	case 0:
		f.Message = "no SPF record says who may send mail of " + c.Domain
		if c.mechanism() == unknownAddress {
			f.Message += "; ADDRESS is the one that " + c.Host + " sends from, which is not known here"
		}
		f.Record = &notify.DNSRecord{Name: c.Domain, Type: "TXT", Value: "v=spf1 " + c.mechanism() + " -all"}
		return f
	case 1:
	default:
		f.Message = fmt.Sprintf("%s has %d SPF records, and receivers accept one: merge them", c.Domain, len(records))
		return f
	}
	servers := c.public()
	if len(servers) == 0 {
		f.Message = "the record is " + records[0]
		if f.Status = fine; c.Host != "" {
			f.Status = warning
			f.Message += ": make sure that it has the address that " + c.Host + " sends from, which is not known here"
		}
		return f
	}
	for _, addr := range servers {
		result, err := spf.CheckHostWithSender(addr.AsSlice(), c.Host, "postmaster@"+c.Domain, spf.WithContext(ctx),
			spf.WithResolver(c.Resolver))
		switch result {
		case spf.Pass:
		case spf.TempError:
			return unknown("spf", c.Domain, err)
		case spf.PermError:
			f.Message = fmt.Sprintf("receivers cannot evaluate the record %q: %v", records[0], err)
			return f
		default:
			f.Message = fmt.Sprintf("the mail server's address %s may not send for %s (%s): add %s to its SPF record", addr,
				c.Domain, result, c.mechanism())
			f.Record = &notify.DNSRecord{Name: c.Domain, Type: "TXT", Value: extended(records[0], c.mechanism())}
			return f
		}
	}
	return finding{Check: "spf", Status: fine, Message: "the mail server may send for " + c.Domain}
}

// unknownAddress is the mechanism of a mail server on a private network.
const unknownAddress = "ip4:ADDRESS"

// mechanism is how an SPF record names the mail server.
func (c *checker) mechanism() string {
	if c.Host == "" {
		return "mx"
	}
	if len(c.addresses) > 0 && len(c.public()) == 0 {
		return unknownAddress
	}
	if len(c.addresses) == 1 && c.addresses[0].String() == c.Host {
		if c.addresses[0].Is4() {
			return "ip4:" + c.Host
		}
		return "ip6:" + c.Host
	}
	return "a:" + c.Host
}

// extended returns an SPF record with another mechanism, before what applies to all the rest.
func extended(record, mechanism string) string {
	fields := strings.Fields(record)
	return strings.Join(append([]string{fields[0], mechanism}, fields[1:]...), " ")
}

// dkim looks for the public key of signatures.
func (c *checker) dkim(ctx context.Context) finding {
	f := finding{Check: "dkim", Status: problem}
	if c.Selector == "" {
		f.Message = "mail is not signed, and large receivers reject unsigned mail: make a key with 'openssl genpkey " +
			"-algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out dkim.pem', and start with --dkim-key dkim.pem " +
			"--dkim-selector ingot"
		if c.Host == "" {
			f.Status = warning
		}
		return f
	}
	name := c.Selector + "._domainkey." + c.Domain
	all, err := c.Resolver.LookupTXT(ctx, name)
	if err != nil && !isMissing(err) {
		return unknown("dkim", name, err)
	}
	f.Record = &notify.DNSRecord{Name: name, Type: "TXT", Value: c.Key}
	want := tags(c.Key)
	for _, text := range all {
		got := tags(text)
		switch {
		case got["p"] == "" && strings.Contains(text, "p="):
			f.Message = "the key at " + name + " is revoked (p= is empty)"
		case !sameKey(got["p"], want["p"]):
			f.Message = "the key at " + name + " is not the one that mail is signed with"
		case strings.Contains(got["t"], "y"):
			f.Status, f.Message = warning, "the key at "+name+" is marked as a test (t=y): receivers may ignore signatures"
			return f
		default:
			return finding{Check: "dkim", Status: fine, Message: "signatures are verified with the key at " + name}
		}
	}
	if len(all) == 0 {
		f.Message = "mail is signed, but its key is not in the DNS: receivers treat the signature as broken"
	}
	return f
}

// tags parses a record such as "v=DKIM1; k=rsa; p=…".
func tags(record string) map[string]string {
	out := map[string]string{}
	for _, part := range strings.Split(record, ";") {
		if name, value, ok := strings.Cut(part, "="); ok {
			out[strings.TrimSpace(name)] = strings.Join(strings.Fields(value), "")
		}
	}
	return out
}

func sameKey(a, b string) bool {
	x, err := base64.StdEncoding.DecodeString(a)
	y, err2 := base64.StdEncoding.DecodeString(b)
	return err == nil && err2 == nil && len(x) > 0 && string(x) == string(y)
}

// dmarc looks for what receivers do with mail that neither SPF nor DKIM confirm.
func (c *checker) dmarc(ctx context.Context) finding {
	domains := []string{c.Domain}
	if parent, err := publicsuffix.EffectiveTLDPlusOne(c.Domain); err == nil && parent != c.Domain {
		domains = append(domains, parent)
	}
	for _, domain := range domains {
		records, err := c.texts(ctx, "_dmarc."+domain, "v=DMARC1")
		if err != nil {
			return unknown("dmarc", "_dmarc."+domain, err)
		}
		if len(records) == 0 {
			continue
		}
		f := finding{Check: "dmarc", Status: problem}
		policy, err := dmarc.Parse(records[0])
		switch {
		case len(records) > 1:
			f.Message = fmt.Sprintf("_dmarc.%s has %d records, and receivers ignore all of them: keep one", domain, len(records))
		case err != nil:
			f.Message = fmt.Sprintf("receivers cannot read the record at _dmarc.%s: %v", domain, err)
		case policy.Policy == dmarc.PolicyNone:
			f.Status = fine
			f.Message = "forged mail is only reported (p=none): when SPF and DKIM are right, change it to quarantine"
		default:
			f.Status, f.Message = fine, fmt.Sprintf("receivers %s forged mail", policy.Policy)
		}
		return f
	}
	return finding{Check: "dmarc", Status: problem,
		Message: "no DMARC record: large receivers reject or delay bulk mail without one",
		Record: &notify.DNSRecord{Name: "_dmarc." + c.Domain, Type: "TXT",
			Value: "v=DMARC1; p=none; rua=mailto:postmaster@" + c.Domain}}
}
