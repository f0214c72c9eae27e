package api

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"ingot/internal/base/token"
	"ingot/internal/base/tracing"
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

// Directory returns the names of users. The authorization server implements it
// through its public API.
type Directory interface {
	// UsersByID returns those of ids that are known; the others are absent.
	UsersByID(ctx context.Context, ids []string) (map[string]DirectoryUser, error)
	// UsersByName returns the users of these names, of any origin unless some
	// are given.
	UsersByName(ctx context.Context, names, origins []string) ([]DirectoryUser, error)
	// CreateUser registers a user of another identity provider, who has no password
	// here. A name or origin that is not accepted is a fault.
	CreateUser(ctx context.Context, name, origin string) (DirectoryUser, error)
	// ClientExists reports whether an OAuth client has this id.
	ClientExists(ctx context.Context, id string) (bool, error)
}

// DirectoryUser is a user in the directory.
type DirectoryUser struct {
	ID       string
	UserName string
	Origin   string
}

// Runtime gives access to the running instances.
type Runtime interface {
	// Usage returns the current resource usage of the running instances of a process
	// by guid. Instances whose usage is unknown are absent.
	Usage(ctx context.Context, instances []*platform.Instance) map[string]InstanceUsage
}

// InstanceUsage is the resource usage of an instance.
type InstanceUsage struct {
	Time   time.Time
	CPU    float64 // 1.0 is a whole processor
	Memory int64   // bytes
	Disk   int64
	// LogRate is its output in bytes a second.
	LogRate int64
	// LogLost is the number of lines of its output that were lost or dropped.
	LogLost uint64
	// Members are the main process and its sidecars, in this order.
	Members []MemberUsage
}

// MemberUsage is the state and the resource usage of one member of an instance.
type MemberUsage struct {
	Name    string
	Sidecar bool
	// State is WAITING, RUNNING or EXITED; Since is when its current life began.
	State  string
	Since  time.Time
	CPU    float64
	Memory int64
	// MemoryLimit is the limit of its own; 0 if it has none.
	MemoryLimit int64
	Restarts    int
	// LastExit is how its last life ended; nil if it has not exited yet.
	LastExit *MemberExit
}

// MemberExit is how one life of a member ended.
type MemberExit struct {
	Status int       `json:"status"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// Traffic counts the requests to instances through their routes.
type Traffic interface {
	// Traffic returns the requests to instances since their start, by guid. Those that are
	// in progress are only the requests through this server.
	Traffic(ctx context.Context, instanceGUIDs ...string) map[string]InstanceTraffic
}

// InstanceTraffic counts the requests to an instance through its routes.
type InstanceTraffic struct {
	Requests       int64    // finished
	Active         int64    // in progress, with connections of TCP routes
	Connections    int64    // of TCP routes, ended
	Classes        [6]int64 // by the first digit of the status; 0 is for those without a response
	Received, Sent int64    // bytes of bodies
	Mean           time.Duration
	P50, P95, P99  time.Duration // quantiles of the duration
}

// Signals notifies the parts that bring the actual state to the desired one, after a
// change was stored. Routes, names and the lines of apps' logs are not among the
// signals: the actions that write those announce them in their transaction
// (platform.Changes). Signals do not block for long and may be lost: the receivers
// also check periodically.
type Signals interface {
	// AppsChanged signals a change of apps or of their bindings; without guids, of
	// bindings only.
	AppsChanged(guids ...string)
	BuildCreated(guid string, by tracing.Origin)
	TasksChanged()
	JobCreated(guid string)
}

// Blobs stores packages, droplets and buildpacks by guid.
type Blobs interface {
	// PutPackage stores a package made of a zip, which may be nil, and of files that
	// are already stored in a pool. Content is never matched across pools.
	PutPackage(ctx context.Context, guid, pool string, zip io.ReaderAt, size int64, matched []Resource) (sha256 string, err error)
	OpenPackage(ctx context.Context, guid string) (Download, error)
	CopyPackage(ctx context.Context, from, to string) error
	// PatchPackage stores a package with the files of another one and a change. PatchDroplet
	// does it with a droplet, or returns ErrNeedsBuild.
	PatchPackage(ctx context.Context, from, to string, p Patch) (sha256 string, files PatchedFiles, err error)
	PatchDroplet(ctx context.Context, from, to string, p Patch) (sha256 string, size int64, err error)
	// DiscardPatched deletes what these two have stored for a change that failed.
	DiscardPatched(ctx context.Context, packageGUID, dropletGUID string) error
	PutDroplet(ctx context.Context, guid string, r io.Reader) (sha256 string, size int64, err error)
	OpenDroplet(ctx context.Context, guid string) (Download, error)
	CopyDroplet(ctx context.Context, from, to string) error
	PutBuildpack(ctx context.Context, guid string, zip io.ReaderAt, size int64) (sha256 string, err error)
	DeleteBuildpack(ctx context.Context, guid string) error
	// ClearBuildCache deletes what builds keep for the next one, of an app or, if guid
	// is empty, of all apps.
	ClearBuildCache(ctx context.Context, appGUID string) error
	// Match returns those of resources whose content is already stored.
	Match(ctx context.Context, pool string, resources []Resource) ([]Resource, error)
}

// Download is a package or droplet for a client.
type Download struct {
	// URL is where the client finds it; if it is empty, File has the content.
	URL  string
	File io.ReadSeekCloser
	// Disposition and ContentType are the values of the headers.
	Disposition, ContentType string
}

// Resource is a file of an app, identified by its content.
type Resource struct {
	Path string
	Mode string // octal
	SHA1 string
	Size int64
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
