package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services"
)

// Version is the version of the v3 API. Clients enable features by it: from 3.211.0
// on they expect embed=process_instances.
const Version = "3.211.0"

// Audience is the audience of tokens for this API.
const Audience = "cloud_controller"

// DashboardAudience is the audience of tokens of service dashboards, which may only
// read the permissions of their users.
const DashboardAudience = "cloud_controller_service_permissions"

// Options configure the API.
type Options struct {
	Store     platform.Store
	Platform  *actions.Platform
	Services  *services.Services
	Directory Directory
	Runtime   Runtime
	Traffic   Traffic // nil means that requests are not counted
	Signals   Signals
	Blobs     Blobs
	Verifier  *token.Verifier
	Log       *slog.Logger
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
	Now               func() time.Time
}

// API serves the v3 API.
type API struct {
	store     platform.Store
	platform  *actions.Platform
	services  *services.Services
	directory Directory
	runtime   Runtime
	traffic   Traffic
	signals   Signals
	blobs     Blobs
	verifier  *token.Verifier
	limiter   web.Limiter
	log       *slog.Logger
	inspect   func(context.Context, io.Reader) (*platform.Droplet, error)
	authURL   func(*http.Request) string
	now       func() time.Time
	enforces  func(*platform.SecurityGroup) string

	noPolicies string

	scratch                    string
	maxUpload                  int64
	sshAddress, sshFingerprint string
	consolePath                string
	notificationsURL           string
	identity                   []byte
}

// New returns the API. Its routes are registered with Routes.
func New(o Options) *API {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.AuthURL == nil {
		o.AuthURL = baseURL
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxUpload <= 0 {
		o.MaxUpload = defaultUpload
	}
	return &API{
		store: o.Store, platform: o.Platform, services: o.Services, directory: o.Directory, runtime: o.Runtime, traffic: o.Traffic, signals: o.Signals, blobs: o.Blobs,
		verifier: o.Verifier, limiter: o.Limiter, log: o.Log, inspect: o.InspectDroplet, authURL: o.AuthURL, now: o.Now, scratch: o.Scratch, maxUpload: o.MaxUpload, sshAddress: o.SSHAddress, sshFingerprint: o.SSHFingerprint, consolePath: o.ConsolePath, notificationsURL: o.NotificationsURL, enforces: o.Enforces, noPolicies: o.NoPolicies, identity: o.IdentityAuthority,
	}
}

// Routes registers every route of the API with its authorization decision.
func (a *API) Routes(m *web.Mux) {
	g := m.Group("platform", web.FormatV3, a.verifier).Limited(a.limiter)
	for _, register := range []func(*web.Group){
		a.rootRoutes, a.organizationRoutes, a.spaceRoutes, a.quotaRoutes, a.userRoutes, a.roleRoutes, a.jobRoutes, a.flagRoutes, a.isolationRoutes, a.domainRoutes, a.routeRoutes, a.routeSharingRoutes,
		a.appRoutes, a.processRoutes, a.sidecarRoutes, a.packageRoutes, a.changeRoutes, a.buildRoutes, a.buildCacheRoutes, a.dropletRoutes, a.envGroupRoutes,
		a.stackRoutes, a.buildpackRoutes, a.eventRoutes, a.usageEventRoutes, a.deploymentRoutes, a.revisionRoutes, a.taskRoutes, a.securityGroupRoutes, a.manifestRoutes,
		a.serviceBrokerRoutes, a.serviceOfferingRoutes, a.servicePlanRoutes, a.serviceInstanceRoutes, a.serviceSharingRoutes,
		a.serviceBindingRoutes, a.serviceRouteBindingRoutes, a.rotationRoutes,
	} {
		register(g)
	}
	a.v2Routes(m.Group("v2", web.FormatV2, a.verifier).Limited(a.limiter))
	a.networkRoutes(m.Group("network policies", web.FormatNetwork, a.verifier))
	a.routerGroupRoutes(m.Group("routing", web.FormatRouting, a.verifier))
}
