package domaincheck

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"ingot/internal/base/safedial"
	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/mail/mtasts"
	"ingot/internal/notify/mail/smtp"
)

// nameServer answers queries by UDP with the records of a zone.
func nameServer(t *testing.T, z *zone) *net.Resolver {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		packet := make([]byte, 4096)
		for {
			n, from, err := socket.ReadFrom(packet)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(packet[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Answers = z.answers(m.Questions[0])
			m.Response, m.Additionals = true, nil
			if len(m.Answers) == 0 {
				m.RCode = dnsmessage.RCodeNameError
			}
			if out, err := m.Pack(); err == nil {
				_, _ = socket.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", socket.LocalAddr().String())
	}}
}

func (z *zone) answers(q dnsmessage.Question) (out []dnsmessage.Resource) {
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	add := func(body dnsmessage.ResourceBody) {
		out = append(out, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60}, Body: body})
	}
	switch q.Type {
	case dnsmessage.TypeTXT:
		for _, text := range z.txt[name] {
			add(&dnsmessage.TXTResource{TXT: []string{text}})
		}
	case dnsmessage.TypeMX:
		for i, host := range z.mx[name] {
			add(&dnsmessage.MXResource{Pref: uint16(10 * i), MX: dnsmessage.MustNewName(host)})
		}
	case dnsmessage.TypeA:
		for _, addr := range z.hosts[name] {
			var a dnsmessage.AResource
			copy(a.A[:], net.ParseIP(addr).To4())
			add(&a)
		}
	}
	return out
}

// world is a domain with a name server, a web server and a mail server.
type world struct {
	zone    *zone
	policy  string
	respond http.HandlerFunc // instead of the policy
	closed  bool             // the mail server
	plain   bool             // it has no TLS
	guard   safedial.Guard
}

const (
	own    = "example.com" // httptest's certificate is also for names below it
	policy = "version: STSv1\nmode: enforce\nmx: localhost\nmax_age: 604800\n"
)

// The policy for mail to the domain is found and compared with what its mail servers are, over
// real connections.
func TestPolicy(t *testing.T) {
	t.Parallel()
	const at, reports = "_mta-sts." + own, "_smtp._tls." + own
	testing1 := strings.Replace(policy, "enforce", "testing", 1)
	for name, c := range map[string]struct {
		change  func(w *world)
		status  string
		message string
		record  string
	}{
		"fulfilled": {func(*world) {}, "ok", "localhost fulfill", ""},
		"none":      {func(w *world) { delete(w.zone.txt, at) }, "ok", "optional", ""},
		"two records": {func(w *world) { w.zone.txt[at] = append(w.zone.txt[at], "v=STSv1; id=2") }, "warning", "2 records",
			"v=STSv1; id="},
		"a bad id": {func(w *world) { w.zone.txt[at] = []string{"v=STSv1; id=a-b"} }, "warning", "no id", "v=STSv1; id="},
		"withdrawn": {func(w *world) { w.policy = strings.Replace(policy, "enforce", "none", 1) }, "ok",
			"as if there were none", ""},
		"testing": {func(w *world) { w.policy = testing1 }, "ok", "change it to enforce", ""},
		"testing without reports": {func(w *world) { w.policy = testing1; delete(w.zone.txt, reports) }, "warning",
			"no one gets the reports", "v=TLSRPTv1; rua=mailto:postmaster@" + own},
		"a short time": {func(w *world) { w.policy = strings.Replace(policy, "604800", "3600", 1) }, "warning",
			"max_age", ""},
		"no web server": {func(w *world) { delete(w.zone.hosts, "mta-sts."+own) }, "warning", "no such host", ""},
		"not found":     {func(w *world) { w.respond = http.NotFound }, "warning", "404", ""},
		"a redirect": {func(w *world) {
			w.respond = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/other", http.StatusFound) }
		}, "warning", "do not follow", ""},
		"a page": {func(w *world) {
			w.respond = func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("<html>hello")) }
		}, "warning", "text/plain", ""},
		"a long answer": {func(w *world) { w.policy = policy + strings.Repeat("x: y\n", 20_000) }, "warning",
			"longer than", ""},
		"nonsense": {func(w *world) { w.policy = "version: 2\n" }, "warning", "version: STSv1", ""},
		"another certificate of the web server": {func(w *world) {
			w.zone.txt["_mta-sts.example.org"], w.zone.hosts["mta-sts.example.org"] = w.zone.txt[at], []string{"127.0.0.1"}
			w.zone.mx["example.org"] = w.zone.mx[own]
		}, "warning", "certificate", ""},
		"a private address": {func(w *world) { w.guard = safedial.Guard{} }, "warning", "private network", ""},
		"another mail server": {func(w *world) { w.zone.mx[own] = []string{"localhost.", "mx2.example.com."} }, "problem",
			`add the line "mx: mx2.example.com"`, ""},
		"another mail server in testing": {func(w *world) {
			w.policy = testing1
			w.zone.mx[own] = []string{"mx2.example.com."}
		}, "warning", "with enforce, mail would be lost", ""},
		"no mail server": {func(w *world) { delete(w.zone.mx, own) }, "problem", "no MX record", ""},
		"a certificate for another name": {func(w *world) {
			w.zone.mx[own], w.policy = []string{"mx.example.com."}, strings.Replace(policy, "localhost", "*.example.com", 1)
		}, "problem", "mx.example.com has no encryption with a valid certificate", ""},
		"no encryption":   {func(w *world) { w.plain = true }, "problem", "STARTTLS is required but not offered", ""},
		"a closed server": {func(w *world) { w.closed = true }, "warning", "certificates were not checked", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{policy: policy, guard: safedial.Everywhere, zone: &zone{
				txt: map[string][]string{at: {"v=STSv1; id=1;"}, reports: {"v=TLSRPTv1; rua=mailto:a@example.com"}},
				mx:  map[string][]string{own: {"localhost."}},
				hosts: map[string][]string{"mta-sts." + own: {"127.0.0.1"}, "mx.example.com": {"127.0.0.1"},
					"mx2.example.com": {"127.0.0.1"}},
			}}
			c.change(w)
			domain := own
			if len(w.zone.txt["_mta-sts.example.org"]) > 0 {
				domain = "example.org"
			}
			f := find(Run(t.Context(), w.options(t, domain)), "mta-sts")
			record := ""
			if f.Record != nil {
				record = f.Record.Value
			}
			if string(f.Status) != c.status || !strings.Contains(f.Message, c.message) || !strings.HasPrefix(record, c.record) ||
				(record == "") != (c.record == "") {
				t.Errorf("finding is %+v with the record %q, want %s, %q and %q", f, record, c.status, c.message, c.record)
			}
		})
	}
}

// options starts the servers.
func (w *world) options(t *testing.T, domain string) Options {
	t.Helper()
	if w.respond == nil {
		w.respond = func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/.well-known/mta-sts.txt" {
				t.Errorf("asked for %s", r.URL)
			}
			rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = rw.Write([]byte(w.policy))
		}
	}
	web := httptest.NewTLSServer(w.respond)
	t.Cleanup(web.Close)
	secure := mailtest.New(t, mailtest.Options{TLS: "starttls"})
	trusted := secure.ClientTLS()
	trusted.RootCAs.AddCert(web.Certificate())
	mail := secure
	if w.plain {
		mail = mailtest.New(t, mailtest.Options{})
	}
	_, port, err := net.SplitHostPort(mail.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if w.closed {
		mail.Close()
	}
	resolver := nameServer(t, w.zone)
	return Options{Domain: domain, Resolver: resolver, Policies: mtasts.New(mtasts.Options{Guard: w.guard, TLS: trusted,
		Resolver: resolver, MailPort: port, PolicyPort: strconv.Itoa(web.Listener.Addr().(*net.TCPAddr).Port)})}
}

// All mail servers are looked at, and the worst is reported.
func TestRelays(t *testing.T) {
	t.Parallel()
	z, o := good()
	z.hosts["two.example.net"] = []string{"203.0.113.10"}
	o.Relays = append(o.Relays, Relay{Host: "two.example.net", Encryption: func(context.Context) (smtp.Encryption, error) {
		return smtp.Encryption{Encrypted: true}, nil
	}})
	f := find(Run(t.Context(), o), "tls")
	if f.Status != warning || !strings.Contains(f.Message, "two.example.net") ||
		strings.Contains(f.Message, "relay.example.net") {
		t.Errorf("finding is %+v, want a warning about the second mail server", f)
	}
}
