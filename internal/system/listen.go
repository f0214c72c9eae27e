package system

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"

	"ingot/internal/base/web"
	"ingot/internal/server/front"
	"ingot/internal/server/sockets"
)

// listeners are the open ports.
type listeners struct {
	public, notifications, admin, ssh net.Listener
	tls                               net.Listener // nil without TLS
}

// openListeners opens all ports or none, except those that were inherited.
func openListeners(ctx context.Context, c Config, inherited *sockets.Set) (*listeners, error) {
	l := &listeners{}
	for _, port := range []struct {
		flag, addr string
		into       *net.Listener
	}{
		{"listen", c.Listen, &l.public},
		{"notifications-listen", c.NotificationsListen, &l.notifications},
		{"admin-listen", c.AdminListen, &l.admin},
		{"ssh-listen", c.SSHListen, &l.ssh},
		{"tls-listen", c.TLSListen, &l.tls},
	} {
		if port.addr == "" {
			continue
		}
		opened, err := inherited.Listen(ctx, port.flag, port.addr, web.Listen)
		if err != nil {
			l.close()
			return nil, err
		}
		*port.into = opened
		if port.into != &l.ssh && port.into != &l.tls && (port.into != &l.public || !c.redirects()) {
			warnIfOpen(c.Log, port.flag, opened)
		}
	}
	if err := requireToken(l.admin, c.AdminListen, c.AdminToken); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// requireToken returns an error if other machines can connect to the admin address and
// no token is set.
func requireToken(admin net.Listener, listen, token string) error {
	if token == "" && !loopback(admin.Addr()) {
		return fmt.Errorf("--admin-listen: %w", errAdminOpen(listen))
	}
	return nil
}

// warnIfOpen warns of a port without encryption that other machines can connect
// to.
func warnIfOpen(log *slog.Logger, flag string, opened net.Listener) {
	if !loopback(opened.Addr()) {
		log.Warn("other machines can connect here, and what they send is not encrypted: use --tls-listen, put a proxy that "+
			"terminates TLS in front, or listen on 127.0.0.1",
			"flag", "--"+flag, "address", opened.Addr().String())
	}
}

func (l *listeners) close() {
	for _, opened := range []net.Listener{l.public, l.notifications, l.admin, l.ssh, l.tls} {
		if opened != nil {
			_ = opened.Close()
		}
	}
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// urlOf returns the URL of an address for a client on this machine.
func urlOf(a net.Addr) string {
	// The % before a zone has to be escaped in a URL.
	return "http://" + strings.Replace(hereOf(a), "%", "%25", 1)
}

// hereOf returns the host and port of an address for a client on this machine.
func hereOf(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return a.String()
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	if tcp.Zone != "" {
		host += "%" + tcp.Zone
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// ownNames returns the host names that apps cannot have.
func (c Config) ownNames() []string { return front.OwnNames(c.Domain, c.PublicURL, c.NotificationsURL) }

// Endpoints are the addresses of the server. They are also the content of
// DIR/endpoints.json while it runs.
type Endpoints struct {
	API           string `json:"api,omitempty"`
	Public        string `json:"public,omitempty"` // the API for other machines, with TLS
	Auth          string `json:"auth"`
	Notifications string `json:"notifications"`
	Admin         string `json:"admin"`
	SSH           string `json:"ssh,omitempty"` // host:port
	Domain        string `json:"domain"`
	DataDir       string `json:"data_dir"`
	PID           int    `json:"pid"`

	tls   string // URL of the port with TLS on this machine
	inner string // host:port at which the server itself calls apps, if not that of API
}

func (l *listeners) endpoints(c Config) Endpoints {
	e := Endpoints{
		API:           urlOf(l.public.Addr()),
		Notifications: urlOf(l.notifications.Addr()),
		Admin:         urlOf(l.admin.Addr()),
		SSH:           hereOf(l.ssh.Addr()),
		Domain:        c.Domain,
		DataDir:       c.DataDir,
		PID:           os.Getpid(),
	}
	if l.tls != nil {
		e.Public, e.tls = c.PublicURL, "https://"+hereOf(l.tls.Addr())
	}
	e.Auth = e.API
	if c.AuthURL != "" {
		e.Auth = c.AuthURL
	}
	return e
}

const endpointsFile = "endpoints.json"
