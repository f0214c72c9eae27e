package system

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/datadir"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/gitpush"
	"ingot/internal/platform/edge/sshd"
	"ingot/internal/platform/logs"
	"ingot/internal/server/front"
	"ingot/internal/server/roots"
)

// hostKeyFile in DIR/secrets contains the host key of the ssh gateway.
const hostKeyFile = "ssh-host-key"

// gateway is the ssh gateway. It writes to the logs of apps.
type gateway struct {
	*sshd.Server
	logs logs.Store
	log  *slog.Logger
	// verifier checks the tokens of codes. It changes when the issuer of an
	// external authorization server is known.
	verifier atomic.Pointer[token.Verifier]
}

// newGateway returns the gateway; it accepts connections after its start.
//
// One-time codes are exchanged at the token endpoint of the authorization
// server, also when that is the built-in one, by the client ssh-proxy.
func (s *System) newGateway(ctx context.Context, b *frontend, dir *datadir.Dir, secrets *datadir.Secrets, r *runtime,
	trusted *roots.Roots) (*gateway, error) {
	g := &gateway{logs: r.logs, log: s.config.Log}
	records := &sshd.Records{Store: r.store, Actions: r.platform, Verifier: g.verifier.Load, Log: s.config.Log}
	codes := sshd.NewCodeAuthorizer(sshd.CodeOptions{
		TokenURL: b.endpoints.Auth + "/oauth/token", ClientID: auth.ClientSSH, Secret: secrets.Clients[auth.ClientSSH],
		Platform: records, TLS: trusted.TLS(),
	})
	s.steps.Later(codes.Close)
	config := sshd.Config{
		Listener: b.ssh, HostKeyFile: dir.File(datadir.SecretsDir, hostKeyFile),
		Engine: sshd.ServiceTunnels{Engine: r.watched, Store: r.store, Broker: r.runningBroker}, Authorizer: codes,
		Git:   &gitGateway{codes, b.front, s.config.Log, b.endpoints.API},
		Hooks: sshd.Hooks{Authorized: records.Authorized, Unauthorized: records.Unauthorized, Line: g.line},
		Log:   s.config.Log,
	}
	if !r.cluster.Alone() {
		config.ShareHostKey = func(create func() ([]byte, error)) ([]byte, error) {
			key, _, err := r.store.Secret(ctx, hostKeyFile, create)
			return key, err
		}
	}
	if r.sftp != "" {
		config.SFTPServers = []string{r.sftp}
	}
	var err error
	g.Server, err = sshd.New(config)
	return g, err
}

// gitGateway passes git from the ssh gateway to the API, as the user who has logged in.
type gitGateway struct {
	*sshd.CodeAuthorizer
	front *front.Front
	log   *slog.Logger
	api   string
}

// Serve implements sshd.Git.
func (g *gitGateway) Serve(ctx context.Context, c sshd.GitCommand) bool {
	base, err := url.Parse(g.api)
	routes := g.front.Live.Load()
	if err != nil || routes == nil {
		g.log.WarnContext(ctx, "git over ssh cannot be served", "error", err, "ready", routes != nil)
		return false
	}
	stream := gitpush.Stream{Service: c.Service, Path: c.Path, Token: c.Token, Remote: c.Remote.String(), In: c.In,
		Out: c.Out, Closing: c.Closing, Cut: c.Cut}
	return stream.Serve(ctx, g.front.Pipeline(routes.Origin, web.FormatGit), base)
}

// address returns the address for clients. It has no host if the gateway listens
// on every address: then clients use the host of the API.
func (g *gateway) address() string {
	tcp, ok := g.Addr().(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return ":" + strconv.Itoa(tcp.Port)
	}
	return g.Addr().String()
}

// line writes a line to the log of the app.
func (g *gateway) line(ctx context.Context, a sshd.Access, text string) {
	err := g.logs.Tell(platform.LogLine{App: a.AppGUID, Time: time.Now(), Source: "SSH", Instance: strconv.Itoa(a.Index),
		Text: []byte(text)})
	if err != nil {
		g.log.WarnContext(ctx, "the ssh session could not be written to the app's log", "app", a.AppGUID, "error", err)
	}
}
