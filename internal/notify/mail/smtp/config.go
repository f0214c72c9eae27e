package smtp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// starttls is whether an unencrypted connection is upgraded.
type starttls string

const (
	startRequired      starttls = "required"
	startOpportunistic starttls = "opportunistic"
	startNever         starttls = "never"
)

// Config configures a Client. Use ParseURL to create one.
type Config struct {
	Host string // without port
	Port string
	// Implicit is TLS from the first byte.
	Implicit bool
	user     string
	password string
	starttls starttls
	auth     string // a mechanism; empty means the best one
	insecure bool

	// Connections is the maximum number of open connections, Idle how long an
	// idle one is kept, Messages how many are sent over one.
	Connections int
	Idle        time.Duration
	Messages    int
	// DomainConnections limits the connections that send to one recipient
	// domain at once; 0 means no limit. SlowConnections is how many connections there are beside Connections
	// for domains that answer slowly. The Gate applies both.
	DomainConnections int
	SlowConnections   int
	// Gate limits the messages to each domain at a time; nil means no limit.
	Gate Gate
	// Slots are the connections that may be in use; nil means Connections of them.
	Slots Slots
	// Late is how long a message may wait for an answer until its connection counts as one of Spare, so that another
	// may be opened for other messages; 0 means that none does.
	Late  time.Duration
	Spare Slots
	// Timeout is how long to wait for a reply, ContentTimeout for the reply to
	// a message's content.
	Timeout        time.Duration
	ContentTimeout time.Duration
	// Name is the name in EHLO; empty means the host name.
	Name string
	// Failures is the number of consecutive failures that open the breaker, for
	// Pause.
	Failures int
	Pause    time.Duration
	// Grace is how long to wait for the reply to a message that was already
	// sent when the context is done.
	Grace time.Duration
	// TLS is the base TLS configuration; nil means the default.
	TLS *tls.Config
	// Dial opens connections; nil means that every address may be connected to.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Mechanisms of authentication, the best for an encrypted connection first.
var mechanisms = []string{"PLAIN", "LOGIN", "CRAM-MD5"}

// ParseURL parses smtp://user:password@host:port?option=value or smtps://….
//
//	starttls=required|opportunistic|never   smtp only; required with a password, opportunistic without
//	auth=plain|login|cram-md5               the best of those offered by default
//	connections=8  slow-connections=8  domain-connections=0  messages=1000  idle=60s  timeout=60s
//	ehlo=name                               how this server calls itself
//	insecure=true                           certificates are not checked: for tests only
//
// Its errors do not contain the password.
func ParseURL(raw string) (Config, error) {
	if !strings.Contains(raw, "://") {
		return Config{}, errors.New(
			"the scheme is missing: write smtp://HOST:PORT or smtps://HOST:PORT, such as smtp://localhost:25")
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The error of url.Parse contains the whole URL.
		return Config{}, errors.New(
			"invalid mail server URL; it has to look like smtp://user:password@host:587, with special characters of the " +
				"password escaped (%40 for @)")
	}
	c := Config{
		Host: u.Hostname(), Port: u.Port(), Implicit: u.Scheme == "smtps",
		Connections: 8, SlowConnections: 8, Messages: 1000, Idle: time.Minute, Timeout: time.Minute,
		ContentTimeout: 5 * time.Minute,
		Failures:       5, Pause: 30 * time.Second, Grace: 5 * time.Second,
	}
	switch {
	case u.Scheme != "smtp" && u.Scheme != "smtps":
		return Config{}, fmt.Errorf("the mail server URL begins with %q, want smtp:// or smtps://", u.Scheme+"://")
	case c.Host == "":
		return Config{}, errors.New("the mail server URL has no host")
	case u.Path != "" && u.Path != "/", u.Fragment != "", u.Opaque != "":
		return Config{}, errors.New("the mail server URL has a path; write options after a ?")
	}
	if c.Port == "" {
		c.Port = map[bool]string{false: "25", true: "465"}[c.Implicit]
	}
	if u.User != nil {
		c.user = u.User.Username()
		c.password, _ = u.User.Password()
		if c.user == "" || strings.ContainsAny(c.user+c.password, "\x00\r\n") {
			return Config{}, errors.New("the mail server URL has an empty or invalid user name or password")
		}
	}
	c.starttls = startOpportunistic
	if c.user != "" && !loopbackHost(c.Host) {
		c.starttls = startRequired
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Config{}, errors.New("invalid options in the mail server URL")
	}
	for name, values := range query {
		if len(values) != 1 {
			return Config{}, fmt.Errorf("the mail server option %s is given %d times", name, len(values))
		}
		if err := c.option(name, values[0]); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

func (c *Config) option(name, value string) error {
	bad := func(want string) error {
		return fmt.Errorf("the mail server option %s is %q, want %s", name, value, want)
	}
	switch name {
	case "starttls":
		if c.starttls = starttls(value); !slices.Contains([]starttls{startRequired, startOpportunistic, startNever},
			c.starttls) {
			return bad("required, opportunistic or never")
		}
		if c.Implicit {
			return errors.New("smtps:// is encrypted from the start: remove the option starttls")
		}
	case "auth":
		if c.auth = strings.ToUpper(value); !slices.Contains(mechanisms, c.auth) {
			return bad("plain, login or cram-md5")
		}
		if c.user == "" {
			return errors.New("the mail server option auth needs a user name and password in the URL")
		}
	case "ehlo":
		if c.Name = value; !ehloName(value) {
			return bad("a host name")
		}
	case "insecure":
		insecure, err := strconv.ParseBool(value)
		if c.insecure = insecure; err != nil {
			return bad("true or false")
		}
	case "connections", "slow-connections", "messages", "domain-connections":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > 1_000_000 || (n == 0 && name != "domain-connections") ||
			(n > 1000 && strings.HasSuffix(name, "connections")) {
			return bad("a positive number")
		}
		*map[string]*int{"connections": &c.Connections, "messages": &c.Messages,
			"slow-connections": &c.SlowConnections, "domain-connections": &c.DomainConnections}[name] = n
	case "timeout", "idle":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return bad("a duration like 30s")
		}
		*map[string]*time.Duration{"timeout": &c.Timeout, "idle": &c.Idle}[name] = d
	default:
		return fmt.Errorf("unknown mail server option %s; known are starttls, auth, connections, slow-connections, "+
			"domain-connections, messages, idle, timeout, ehlo and insecure", strconv.Quote(name))
	}
	return nil
}

// String returns host and port, without user and password.
func (c *Config) String() string { return net.JoinHostPort(c.Host, c.Port) }

// verified reports whether the server's certificate must be valid. Where plain
// text would be accepted too, an unverified certificate is better than none; a
// password is sent only to a verified server.
func (c *Config) verified() bool {
	if c.insecure {
		return false
	}
	return c.Implicit || c.starttls == startRequired || c.user != ""
}

func (c *Config) tlsConfig() *tls.Config {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.TLS != nil {
		conf = c.TLS.Clone()
	}
	if conf.ServerName == "" {
		conf.ServerName = c.Host
	}
	conf.InsecureSkipVerify = !c.verified()
	return conf
}

func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

func ehloName(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	return strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789.-_[]:") == ""
}
