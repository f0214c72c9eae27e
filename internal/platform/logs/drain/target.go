package drain

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// The URL schemes of drains.
const (
	schemeTCP   = "syslog"
	schemeTLS   = "syslog-tls"
	schemeHTTPS = "https"
	schemeBatch = "https-batch"
)

// target is the destination of a drain.
type target struct {
	scheme   string
	address  string // HOST:PORT, of syslog
	url      string // of HTTPS; it may hold secrets
	name     string // scheme and host, for messages
	tls      *tls.Config
	logs     bool // it wants lines
	metadata bool
	sources  sourceFilter
}

func parseTarget(d *Drain, trust *tls.Config) (*target, error) {
	u, err := url.Parse(strings.TrimSpace(d.URL))
	if err != nil {
		return nil, errors.New("its URL cannot be read") // the error repeats the URL
	}
	if u.Hostname() == "" {
		return nil, errors.New("its URL has no host")
	}
	q := u.Query()
	t := &target{
		scheme: strings.ToLower(u.Scheme), name: strings.ToLower(u.Scheme) + "://" + u.Host,
		metadata: q.Get("disable-metadata") != "true",
	}
	t.logs = wantsLogs(q.Get("drain-type")) && wantsLogs(q.Get("drain-data"))
	if t.sources, err = parseSources(q.Get("include-log-source-types"), q.Get("exclude-log-source-types")); err != nil {
		return nil, err
	}
	switch t.scheme {
	case schemeTCP, schemeTLS:
		port := u.Port()
		if port == "" {
			return nil, errors.New("its URL has no port")
		}
		t.address = net.JoinHostPort(u.Hostname(), port)
	case schemeHTTPS, schemeBatch:
		u.Scheme, u.Fragment = schemeHTTPS, ""
		t.url = u.String()
	default:
		return nil, errors.New("its URL must begin with syslog://, syslog-tls://, https:// or https-batch://")
	}
	if t.scheme == schemeTCP {
		return t, nil
	}
	t.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if trust != nil {
		t.tls = trust.Clone()
	}
	t.tls.ServerName = u.Hostname()
	if len(d.CA) > 0 {
		t.tls.RootCAs = x509.NewCertPool()
		if !t.tls.RootCAs.AppendCertsFromPEM(d.CA) {
			return nil, errors.New("its certificate authority is not PEM")
		}
	}
	if len(d.Certificate) > 0 || len(d.Key) > 0 {
		own, err := tls.X509KeyPair(d.Certificate, d.Key)
		if err != nil {
			return nil, fmt.Errorf("its client certificate cannot be used: %w", err)
		}
		t.tls.Certificates = []tls.Certificate{own}
	}
	return t, nil
}

// wantsLogs interprets drain-type and drain-data: a drain of metrics or traces gets no
// lines, and there are no metrics or traces here.
func wantsLogs(kind string) bool { return kind == "" || kind == "logs" || kind == "all" }
