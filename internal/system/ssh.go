package system

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/sshd"
)

// hostKeyFile in DIR/secrets is the key by which clients know the ssh gateway.
const hostKeyFile = "ssh-host-key"

// gateway is the ssh gateway, and what it asks and tells the platform.
type gateway struct {
	*sshd.Server
	store    platform.Store
	platform *actions.Platform
	logs     *logs.Store
	log      *slog.Logger
	// verifier checks the tokens of codes. It changes when an external
	// authorization server became known.
	verifier atomic.Pointer[token.Verifier]
}

var _ sshd.Platform = (*gateway)(nil)

// newGateway makes the gateway; it lets nobody in before it is started.
//
// One-time codes are exchanged at the token endpoint of the authorization
// server, also when that is the built-in one, by the client ssh-proxy.
func (s *System) newGateway(b *building, dir *dataDir, secrets *secrets, r *runtime) (*gateway, error) {
	g := &gateway{store: r.store, platform: r.platform, logs: r.logs, log: s.config.Log}
	codes := sshd.NewCodeAuthorizer(sshd.CodeOptions{
		TokenURL: b.endpoints.Auth + "/oauth/token", ClientID: auth.ClientSSH, Secret: secrets.components[auth.ClientSSH], Platform: g,
	})
	s.later(codes.Close)
	config := sshd.Config{
		Listener: b.ssh, HostKeyFile: filepath.Join(dir.file(secretsDir), hostKeyFile), Engine: tunnels{r.watched, r}, Authorizer: codes,
		Hooks: sshd.Hooks{Authorized: g.authorized, Unauthorized: g.unauthorized, Line: g.line}, Log: s.config.Log,
	}
	if r.sftp != "" {
		config.SFTPServers = []string{r.sftp}
	}
	var err error
	g.Server, err = sshd.New(config)
	return g, err
}

// address is where clients are told to connect to. A gateway that listens on
// every address is reached by the name under which the API is.
func (g *gateway) address() string {
	tcp, ok := g.Addr().(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return ":" + strconv.Itoa(tcp.Port)
	}
	return g.Addr().String()
}

// Identify implements sshd.Platform.
func (g *gateway) Identify(ctx context.Context, raw string) (sshd.User, error) {
	verifier := g.verifier.Load()
	if verifier == nil {
		return sshd.User{}, errors.New("the authorization server has not answered yet")
	}
	claims, err := verifier.Verify(ctx, raw)
	if err != nil {
		return sshd.User{}, err
	}
	if !claims.IsUser() {
		return sshd.User{}, fault.New(fault.InvalidToken, "the token is a client's own, and not a user's")
	}
	return sshd.User{GUID: claims.UserID, Name: claims.UserName, Scopes: claims.Scope}, nil
}

// Place implements sshd.Platform.
func (g *gateway) Place(ctx context.Context, u sshd.User, processGUID string, index int) (p sshd.Place, err error) {
	err = g.store.View(ctx, func(tx platform.Tx) error {
		process, err := tx.Processes().Get(processGUID)
		if err != nil {
			return err
		}
		app, err := tx.Apps().Get(process.AppGUID)
		if err != nil {
			return err
		}
		space, err := tx.Spaces().Get(app.SpaceGUID)
		if err != nil {
			return err
		}
		org, err := tx.Organizations().Get(space.OrgGUID)
		if err != nil {
			return err
		}
		p = sshd.Place{
			AppGUID: app.GUID, Suspended: org.Suspended, SpaceAllows: space.SSHAllowed, AppAllows: api.SSHAllowed(app), Started: app.State == platform.AppStarted,
		}
		if p.Visible, p.Developer, err = standing(tx, u, app); err != nil {
			return err
		}
		instance, err := api.InstanceAt(tx, process, index)
		if instance != nil {
			p.InstanceID, p.Running = instance.GUID, p.Started && instance.State == platform.InstanceRunning
		}
		return err
	})
	return p, err
}

// standing says whether a user may see an app, and whether he develops it.
func standing(tx platform.Tx, u sshd.User, app *platform.App) (visible, developer bool, err error) {
	q := platform.Where("guid", app.GUID)
	q.Reader = &platform.Reader{UserGUID: u.GUID}
	seen, err := tx.Apps().Count(q)
	if err != nil {
		return false, false, err
	}
	roles, err := tx.Roles().Count(platform.Where("user_guid", u.GUID).And(platform.In("type", string(platform.SpaceDeveloper))).And(platform.In("space_guid", app.SpaceGUID)))
	return seen > 0, roles > 0, err
}

func (g *gateway) authorized(ctx context.Context, a sshd.Access) {
	g.record(ctx, "audit.app.ssh-authorized", a, map[string]any{"index": a.Index})
}

// unauthorized records a refusal of somebody who is known, to an app that is. A
// wrong code tells neither; then there is only the operator's log.
func (g *gateway) unauthorized(ctx context.Context, a sshd.Access, why string) {
	if a.AppGUID == "" || a.UserGUID == "" {
		return
	}
	g.record(ctx, "audit.app.ssh-unauthorized", a, map[string]any{"index": a.Index, "reason": why})
}

func (g *gateway) record(ctx context.Context, kind string, a sshd.Access, data map[string]any) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	by := actions.Actor{GUID: a.UserGUID, Type: "user", Name: a.UserName}
	err := g.store.Update(ctx, func(tx platform.Tx) error {
		app, err := tx.Apps().Get(a.AppGUID)
		if err != nil {
			return err
		}
		return g.platform.RecordApp(tx, kind, by, app, data)
	})
	if err != nil && !fault.Is(err, fault.NotFound) { // the app was just deleted
		g.log.ErrorContext(ctx, "an ssh access could not be recorded", "event", kind, "app", a.AppGUID, "user", a.UserGUID, "error", err)
	}
}

// recordTimeout bounds the writing of an audit event: somebody waits for it.
const recordTimeout = 15 * time.Second

// line writes to the log of the app.
func (g *gateway) line(ctx context.Context, a sshd.Access, text string) {
	err := g.logs.Tell(platform.LogLine{App: a.AppGUID, Time: time.Now(), Source: "SSH", Instance: strconv.Itoa(a.Index), Text: []byte(text)})
	if err != nil {
		g.log.WarnContext(ctx, "an ssh access could not be written to the app's log", "app", a.AppGUID, "error", err)
	}
}
