package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"

	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/admin"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/builds"
	"ingot/internal/platform/api/gitpush"
	"ingot/internal/platform/api/orgs"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/api/routes"
	serviceapi "ingot/internal/platform/api/services"
	"ingot/internal/platform/api/source"
	v2 "ingot/internal/platform/api/v2"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/run/gitfetch"
	"ingot/internal/platform/services"
)

// Version is the version of the v3 API. Clients enable features by it: from 3.211.0
// on they expect embed=process_instances.
const Version = "3.211.0"

// Audience is the audience of tokens for this API.
const Audience = "cloud_controller"

// Options configure the API.
type Options struct {
	Store     platform.Store
	Platform  *actions.Platform
	Services  *services.Services
	Directory orgs.Directory
	Runtime   apps.Runtime
	Traffic   apps.Traffic // nil means that requests are not counted
	Series    apps.Series  // nil means that nothing is recorded
	Blobs     builds.Blobs
	// DownloadLinks are the links to packages and droplets. Without a key they work until the server ends, and only
	// on this one.
	DownloadLinks builds.Links
	// Repositories keeps what was pushed with git, and Logs has what is shown then; nil means that
	// git cannot push.
	Repositories gitpush.Repositories
	Logs         logs.Store
	// Git fetches the repositories that apps are deployed from.
	Git *gitfetch.Client
	// Claim reserves a name on all servers; nil means that there is only one. See gitpush.API.
	Claim    func(ctx context.Context, name string) (release func(), ok bool, err error)
	Verifier *token.Verifier
	Log      *slog.Logger
	// InspectDroplet reads the metadata of an uploaded droplet. A *fault.Error means
	// that it could not run.
	InspectDroplet func(ctx context.Context, r io.Reader) (*platform.Droplet, error)
	// Scratch is the directory for uploads until they are stored; empty means the
	// system's temporary directory.
	Scratch string
	// MaxUpload limits the size of uploads in bytes; 1 GiB if zero.
	MaxUpload int64
	// AuthURL returns the URL of the authorization server for a client; nil means the
	// origin of the request.
	AuthURL func(*http.Request) string
	// SSH is the address, host:port, and host key fingerprint of the ssh
	// gateway; empty means that there is none. Without a host it is that of the
	// request.
	SSHAddress, SSHFingerprint string
	// ConsolePath is where browsers are sent that open the root; empty means that there is no
	// console.
	ConsolePath string
	// NotificationsURL is the URL of the notification service; empty means that there
	// is none.
	NotificationsURL string
	// Limiter limits the requests of callers; nil means no limit.
	Limiter web.Limiter
	// Enforces returns a warning about a security group that the engine does not
	// enforce, or not all of it; nil means that it enforces everything.
	Enforces func(*platform.SecurityGroup) string
	// NoPolicies is why network policies cannot be created: clients do not show the
	// warnings of these requests. It is empty if they can.
	NoPolicies string
	// IdentityAuthority is the certificate, as PEM, of the authority of instances'
	// certificates; empty means that instances have none.
	IdentityAuthority []byte
}

// API serves the v3 API.
type API struct{ o Options }

// New returns the API. Its routes are registered with Routes.
func New(o Options) *API {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.AuthURL == nil {
		o.AuthURL = rest.BaseURL
	}
	if o.MaxUpload <= 0 {
		o.MaxUpload = builds.DefaultUpload
	}
	if len(o.DownloadLinks.Key) == 0 {
		o.DownloadLinks.Key = builds.NewLinkKey()
	}
	return &API{o}
}

// Routes registers every route of the API with its authorization decision.
func (a *API) Routes(m *web.Mux) {
	o := &a.o
	server := &rest.Server{Store: o.Store, Platform: o.Platform, Services: o.Services, Log: o.Log}
	edge := &routes.API{Server: server, Enforces: o.Enforces, NoPolicies: o.NoPolicies}

	g := m.Group("platform", web.FormatV3, o.Verifier).Limited(o.Limiter)
	a.rootRoutes(g)
	(&admin.API{Server: server}).Routes(g)
	(&orgs.API{Server: server, Directory: o.Directory}).Routes(g)
	edge.Routes(g)
	running := &apps.API{
		Server: server, Runtime: o.Runtime, Traffic: o.Traffic, Series: o.Series, SSH: o.SSHAddress != "",
	}
	running.Routes(g)
	(&builds.API{
		Server: server, Blobs: o.Blobs, Links: o.DownloadLinks, InspectDroplet: o.InspectDroplet, Scratch: o.Scratch,
		MaxUpload: o.MaxUpload,
	}).Routes(g)
	(&serviceapi.API{Server: server}).Routes(g)
	made := &source.API{Server: server, Apps: running, Blobs: o.Blobs, Scratch: o.Scratch, MaxUpload: o.MaxUpload,
		Git: o.Git}
	made.Routes(g)
	if o.Services != nil {
		o.Services.Pulls(made.Redeploy)
	}
	if o.Repositories != nil {
		(&gitpush.API{
			Server: server, Source: made, Repositories: o.Repositories, Logs: o.Logs, Scratch: o.Scratch,
			MaxUpload: o.MaxUpload, Claim: o.Claim,
		}).Routes(m.Group("git", web.FormatGit, o.Verifier).Limited(o.Limiter))
	}

	old := m.Group("v2", web.FormatV2, o.Verifier).Limited(o.Limiter)
	(&v2.API{Server: server, Runtime: o.Runtime}).Routes(old)
	edge.PolicyRoutes(m.Group("network policies", web.FormatNetwork, o.Verifier))
	edge.RouterGroupRoutes(m.Group("routing", web.FormatRouting, o.Verifier))
}
