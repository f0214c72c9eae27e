package system

import (
	"context"
	"net"
	"net/http"

	"ingot/internal/auth"
	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/web"
	"ingot/internal/console"
	"ingot/internal/console/consoledb"
	"ingot/internal/server/front"
)

func (s *System) consoleOptions(client *http.Client, secrets *datadir.Secrets, d *db.DB, ssh *gateway) console.Options {
	return console.Options{
		AuthURL: s.config.AuthURL, AuthClient: client, Secret: secrets.Clients[auth.ClientConsole],
		Sessions: consoledb.New(d),
		Gateway:  ssh.Connect, Proxies: s.config.proxies(), Log: s.config.Log,
	}
}

// withConsole adds the console beside the platform, which it calls like any other client.
func withConsole(t *front.Routes, o console.Options) *front.Routes {
	o.Platform, o.Notifications = web.Inner(t.Origin), web.Inner(t.Notifications)
	console.New(o).Routes(t.Origin)
	return t
}

// offerLinks lets the server create login links if it serves this machine alone, without TLS.
func (s *System) offerLinks(b *frontend, own *auth.Server) {
	address, tcp := b.public.Addr().(*net.TCPAddr)
	if tcp && address.IP.IsLoopback() && b.secure == nil && s.config.PublicURL == "" {
		s.linkServer.Store(own)
	}
}

// LoginLink returns a link that logs the user admin into the console, once. It returns "" if
// the server is reachable from other machines or uses another authorization server.
func (s *System) LoginLink(ctx context.Context) (string, error) {
	own := s.linkServer.Load()
	if own == nil {
		return "", nil
	}
	path, err := own.LoginLink(ctx, console.Path)
	if err != nil {
		return "", err
	}
	return s.Endpoints().API + path, nil
}
