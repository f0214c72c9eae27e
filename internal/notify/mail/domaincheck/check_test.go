package domaincheck

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/smtp"
)

// zone is a resolver that knows these records.
type zone struct {
	txt     map[string][]string
	mx      map[string][]string
	hosts   map[string][]string
	reverse map[string][]string
	broken  bool
}

func answer[T any](z *zone, all map[string]T, name string) (T, error) {
	list, ok := all[strings.TrimSuffix(name, ".")]
	switch {
	case z.broken:
		return list, &net.DNSError{Err: "server misbehaving", Name: name, IsTemporary: true}
	case !ok:
		return list, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	return list, nil
}

func (z *zone) LookupTXT(_ context.Context, name string) ([]string, error) {
	return answer(z, z.txt, name)
}

func (z *zone) LookupAddr(_ context.Context, addr string) ([]string, error) {
	return answer(z, z.reverse, addr)
}

func (z *zone) LookupMX(_ context.Context, name string) (list []*net.MX, err error) {
	hosts, err := answer(z, z.mx, name)
	for _, host := range hosts {
		list = append(list, &net.MX{Host: host})
	}
	return list, err
}

func (z *zone) LookupIPAddr(_ context.Context, host string) (list []net.IPAddr, err error) {
	addrs, err := answer(z, z.hosts, host)
	for _, addr := range addrs {
		list = append(list, net.IPAddr{IP: net.ParseIP(addr)})
	}
	return list, err
}

const key = "v=DKIM1; k=rsa; p=a2V5"

// good is a domain that is set up well, and its mail server.
func good() (*zone, Options) {
	z := &zone{
		txt: map[string][]string{
			"mail.example.com":                  {"v=spf1 a:relay.example.net -all", "something else"},
			"ingot._domainkey.mail.example.com": {"v=DKIM1; k=rsa; t=s; p=a2 V5"},
			"_dmarc.example.com":                {"v=DMARC1; p=reject"},
		},
		mx:      map[string][]string{"mail.example.com": {"mx.example.com."}},
		hosts:   map[string][]string{"relay.example.net": {"203.0.113.9", "2001:db8::9"}},
		reverse: map[string][]string{"203.0.113.9": {"relay.example.net."}, "2001:db8::9": {"relay.example.net."}},
	}
	return z, Options{Domain: "mail.example.com", Selector: "ingot", Key: key, Host: "relay.example.net", Resolver: z,
		Relays: relay(smtp.Encryption{Encrypted: true, Required: true}, nil)}
}

func relay(e smtp.Encryption, err error) []Relay {
	ask := func(context.Context) (smtp.Encryption, error) { return e, err }
	return []Relay{{Host: "relay.example.net", Encryption: ask}}
}

func find(r notify.DomainReport, check string) notify.DomainFinding {
	for _, f := range r.Findings {
		if f.Check == check {
			return f
		}
	}
	return notify.DomainFinding{}
}

func TestGoodDomain(t *testing.T) {
	t.Parallel()
	_, o := good()
	r := Run(t.Context(), o)
	if len(r.Findings) != 6 || r.Domain != o.Domain {
		t.Errorf("report is %+v, want six findings", r)
	}
	for _, f := range r.Findings {
		if f.Status != notify.DomainOK || f.Record != nil || f.Message == "" {
			t.Errorf("finding is %+v, want it to be fine", f)
		}
	}
}

// What is wrong is found, with what to change.
func TestFindings(t *testing.T) {
	t.Parallel()
	const domain, sub = "mail.example.com", "ingot._domainkey.mail.example.com"
	for name, c := range map[string]struct {
		change  func(z *zone, o *Options)
		check   string
		status  notify.DomainStatus
		message string
		record  string
	}{
		"no SPF": {func(z *zone, _ *Options) { delete(z.txt, domain) }, "spf", problem, "no SPF record",
			domain + " TXT v=spf1 a:relay.example.net -all"},
		"no SPF, server by address": {func(z *zone, o *Options) { delete(z.txt, domain); o.Host = "2001:db8::9" }, "spf",
			problem, "no SPF record", domain + " TXT v=spf1 ip6:2001:db8::9 -all"},
		"no SPF, server on this machine": {func(z *zone, o *Options) { delete(z.txt, domain); o.Host = "127.0.0.1" }, "spf",
			problem, "ADDRESS is the one that 127.0.0.1 sends from", domain + " TXT v=spf1 ip4:ADDRESS -all"},
		"two SPF records": {func(z *zone, _ *Options) { z.txt[domain] = []string{"v=spf1 -all", "v=spf1 mx -all"} }, "spf",
			problem, "2 SPF records", ""},
		"SPF of others": {func(z *zone, _ *Options) { z.txt[domain] = []string{"v=spf1 ip4:198.51.100.1 ~all"} }, "spf",
			problem, "may not send for mail.example.com (softfail)",
			domain + " TXT v=spf1 a:relay.example.net ip4:198.51.100.1 ~all"},
		"broken SPF": {func(z *zone, _ *Options) { z.txt[domain] = []string{"v=spf1 nonsense:x -all"} }, "spf", problem,
			"cannot evaluate", ""},
		"server on a private network": {func(z *zone, _ *Options) { z.hosts["relay.example.net"] = []string{"10.1.2.3"} },
			"spf", warning, "not known here", ""},
		"not signed": {func(_ *zone, o *Options) { o.Selector, o.Key = "", "" }, "dkim", problem, "--dkim-key", ""},
		"key missing": {func(z *zone, _ *Options) { delete(z.txt, sub) }, "dkim", problem, "not in the DNS",
			sub + " TXT " + key},
		"other key": {func(z *zone, _ *Options) { z.txt[sub] = []string{"v=DKIM1; p=b3RoZXI="} }, "dkim", problem,
			"not the one that mail is signed with", sub + " TXT " + key},
		"revoked key": {func(z *zone, _ *Options) { z.txt[sub] = []string{"v=DKIM1; p="} }, "dkim", problem, "revoked",
			sub + " TXT " + key},
		"test key": {func(z *zone, _ *Options) { z.txt[sub] = []string{"v=DKIM1; t=y; p=a2V5"} }, "dkim", warning, "t=y",
			sub + " TXT " + key},
		"no DMARC": {func(z *zone, _ *Options) { delete(z.txt, "_dmarc.example.com") }, "dmarc", problem,
			"no DMARC record", "_dmarc.mail.example.com TXT v=DMARC1; p=none; rua=mailto:postmaster@mail.example.com"},
		"two DMARC records": {func(z *zone, _ *Options) {
			z.txt["_dmarc."+domain] = []string{"v=DMARC1; p=none", "v=DMARC1; p=reject"}
		}, "dmarc", problem, "2 records", ""},
		"broken DMARC": {func(z *zone, _ *Options) { z.txt["_dmarc."+domain] = []string{"v=DMARC1; p=maybe"} }, "dmarc",
			problem, "cannot read", ""},
		"DMARC that only reports": {func(z *zone, _ *Options) { z.txt["_dmarc."+domain] = []string{"v=DMARC1; p=none"} },
			"dmarc", fine, "p=none", ""},
		"no MX":   {func(z *zone, _ *Options) { delete(z.mx, domain) }, "mx", warning, "are lost", ""},
		"null MX": {func(z *zone, _ *Options) { z.mx[domain] = []string{"."} }, "mx", problem, "receives no mail", ""},
		"no name of the address": {func(z *zone, _ *Options) { delete(z.reverse, "203.0.113.9") }, "reverse", problem,
			"203.0.113.9 has no name", ""},
		"name of another address": {func(z *zone, _ *Options) {
			z.reverse["203.0.113.9"], z.hosts["other.example.net"] = []string{"other.example.net."}, []string{"203.0.113.10"}
		}, "reverse", problem, "leads back", ""},
		"plain text": {func(_ *zone, o *Options) { o.Relays = relay(smtp.Encryption{}, nil) }, "tls", problem,
			"not encrypted", ""},
		"encrypted by chance": {func(_ *zone, o *Options) { o.Relays = relay(smtp.Encryption{Encrypted: true}, nil) },
			"tls", warning, "add starttls=required", ""},
		"encrypted by a stranger": {func(_ *zone, o *Options) {
			o.Relays = relay(smtp.Encryption{Encrypted: true, Invalid: errors.New("expired")}, nil)
		}, "tls", warning, "not valid (expired)", ""},
		"plain text on this machine": {func(z *zone, o *Options) {
			o.Relays = relay(smtp.Encryption{}, nil)
			z.hosts["relay.example.net"] = []string{"127.0.0.1"}
		}, "tls", fine, "on this machine", ""},
		"server is down": {func(_ *zone, o *Options) {
			o.Relays = relay(smtp.Encryption{}, errors.New("connect: refused"))
		}, "tls", problem, "refused", ""},
		"no mail server": {func(_ *zone, o *Options) { o.Host, o.Relays = "", nil }, "tls", warning, "--smtp-url", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z, o := good()
			c.change(z, &o)
			f := find(Run(t.Context(), o), c.check)
			record := ""
			if f.Record != nil {
				record = f.Record.Name + " " + f.Record.Type + " " + f.Record.Value
			}
			if f.Status != c.status || !strings.Contains(f.Message, c.message) || record != c.record {
				t.Errorf("finding is %+v with the record %q, want %s, %q and %q", f, record, c.status, c.message, c.record)
			}
		})
	}
}

// A DNS that does not answer is no reason to change records.
func TestUnknown(t *testing.T) {
	t.Parallel()
	z, o := good()
	z.broken = true
	for _, f := range Run(t.Context(), o).Findings {
		if f.Check != "tls" && (f.Status != warning || !strings.Contains(f.Message, "try again") || f.Record != nil) {
			t.Errorf("finding is %+v, want a warning to try again", f)
		}
	}
}
