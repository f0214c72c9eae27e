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

// Version is the v3 API version we speak. Clients switch features on by it:
// from 3.211.0 on they expect embed=process_instances.
const Version = "3.211.0"

// Audience is what tokens call this API.
const Audience = "cloud_controller"

// DashboardAudience is what tokens of service dashboards call it: they may ask for
// the permissions of their users, and nothing else.
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
	// InspectDroplet looks into a droplet that is uploaded, and returns what it
	// says of itself. A *fault.Error means that it could not run.
	InspectDroplet func(ctx context.Context, r io.Reader) (*platform.Droplet, error)
	// Scratch is where uploads lie until they are stored; empty means the
	// system's temporary directory.
	Scratch string
	// MaxUpload is the largest upload that is taken, in bytes; 1 GiB if zero.
	MaxUpload int64
	// AuthURL says where a client finds the authorization server; nil means
	// on the origin it already talks to.
	AuthURL func(*http.Request) string
	// SSH is the address, host:port, and host key fingerprint of the ssh
	// gateway; empty means that there is none. Without a host it is the one by
	// which the client reached us.
	SSHAddress, SSHFingerprint string
	// NotificationsURL is where the notification service is; empty means that
	// there is none.
	NotificationsURL string
	Now              func() time.Time
}

// API answers the v3 API.
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
	log       *slog.Logger
	inspect   func(context.Context, io.Reader) (*platform.Droplet, error)
	authURL   func(*http.Request) string
	now       func() time.Time

	scratch                    string
	maxUpload                  int64
	sshAddress, sshFingerprint string
	notificationsURL           string
}

// Directory knows the names of users. It is the authorization server, seen
// through its public API.
type Directory interface {
	// UsersByID returns those of ids that are known; the others are absent.
	UsersByID(ctx context.Context, ids []string) (map[string]DirectoryUser, error)
	// UsersByName returns the users of these names, of any origin unless some
	// are given.
	UsersByName(ctx context.Context, names, origins []string) ([]DirectoryUser, error)
}

// DirectoryUser is what the directory says about a user.
type DirectoryUser struct {
	ID       string
	UserName string
	Origin   string
}

// Runtime gives access to the running instances.
type Runtime interface {
	// Usage returns what the running instances of a process use at the moment,
	// by their guids. Instances of which nothing is known are absent.
	Usage(ctx context.Context, instances []*platform.Instance) map[string]InstanceUsage
	// RestartInstance stops one instance; a new one replaces it.
	RestartInstance(ctx context.Context, processGUID string, index int) error
}

// InstanceUsage is what an instance uses.
type InstanceUsage struct {
	Time   time.Time
	CPU    float64 // 1.0 is a whole processor
	Memory int64   // bytes
	Disk   int64
	// LogRate is its output in bytes a second.
	LogRate int64
	// LogLost is how many lines of its output were lost or dropped so far.
	LogLost uint64
}

// Traffic knows what instances are asked through their routes.
type Traffic interface {
	// Traffic returns the requests of an instance since it is there; none when
	// it never had one.
	Traffic(instanceGUID string) InstanceTraffic
}

// InstanceTraffic is what an instance was asked through its routes.
type InstanceTraffic struct {
	Requests       int64    // that have ended
	Active         int64    // that have not
	Classes        [6]int64 // by the first digit of the status; 0 is for those without an answer
	Received, Sent int64    // bytes of bodies
	Mean           time.Duration
	P50, P95, P99  time.Duration // at most so long took that share
}

// Signals tell the parts that make actual match desired that something
// changed, after the change was stored. Routes, names and the lines of apps' logs
// are not among them: the actions that write those announce them in their
// transaction (platform.Changes). They do not block for long and may be
// lost: all of them also look by themselves from time to time.
type Signals interface {
	// AppsChanged tells of apps, or of what they are bound to; without guids, of
	// bindings alone.
	AppsChanged(guids ...string)
	BuildCreated(guid string)
	TasksChanged()
	JobCreated(guid string)
}

// Blobs keeps packages, droplets and buildpacks, by their guids.
type Blobs interface {
	// PutPackage stores a package made of a zip (which may be nil) and of
	// files that are there already. pool names whose files these are: content
	// is never matched across pools.
	PutPackage(ctx context.Context, guid, pool string, zip io.ReaderAt, size int64, matched []Resource) (sha256 string, err error)
	OpenPackage(ctx context.Context, guid string) (Download, error)
	CopyPackage(ctx context.Context, from, to string) error
	PutDroplet(ctx context.Context, guid string, r io.Reader) (sha256 string, size int64, err error)
	OpenDroplet(ctx context.Context, guid string) (Download, error)
	CopyDroplet(ctx context.Context, from, to string) error
	PutBuildpack(ctx context.Context, guid string, zip io.ReaderAt, size int64) (sha256 string, err error)
	DeleteBuildpack(ctx context.Context, guid string) error
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

// Resource is a file of an app by its content.
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
		verifier: o.Verifier, log: o.Log, inspect: o.InspectDroplet, authURL: o.AuthURL, now: o.Now, scratch: o.Scratch, maxUpload: o.MaxUpload, sshAddress: o.SSHAddress, sshFingerprint: o.SSHFingerprint, notificationsURL: o.NotificationsURL,
	}
}

// Routes registers every route of the API with its authorization decision.
func (a *API) Routes(m *web.Mux) {
	g := m.Group("platform", web.FormatV3, a.verifier)
	for _, register := range []func(*web.Group){
		a.rootRoutes, a.organizationRoutes, a.spaceRoutes, a.quotaRoutes, a.userRoutes, a.roleRoutes, a.jobRoutes, a.flagRoutes, a.isolationRoutes, a.domainRoutes, a.routeRoutes,
		a.appRoutes, a.processRoutes, a.sidecarRoutes, a.packageRoutes, a.buildRoutes, a.dropletRoutes, a.envGroupRoutes,
		a.stackRoutes, a.buildpackRoutes, a.eventRoutes, a.deploymentRoutes, a.taskRoutes, a.emptyRoutes, a.manifestRoutes,
		a.serviceBrokerRoutes, a.serviceOfferingRoutes, a.servicePlanRoutes, a.serviceInstanceRoutes, a.serviceSharingRoutes,
		a.serviceBindingRoutes, a.serviceRouteBindingRoutes,
	} {
		register(g)
	}
}
