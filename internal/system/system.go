package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/auth"
	"ingot/internal/auth/authdb"
	"ingot/internal/auth/external"
	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/base/safedial"
	"ingot/internal/base/seal"
	"ingot/internal/base/uaaclient"
	"ingot/internal/base/web"
	"ingot/internal/console"
	"ingot/internal/console/consoledb"
	"ingot/internal/platform"
	"ingot/internal/platform/alerts"
	"ingot/internal/platform/api"
	serviceapi "ingot/internal/platform/api/services"
	"ingot/internal/platform/api/uploads"
	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/choice"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/run/census"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/services"
	"ingot/internal/server/cluster"
	"ingot/internal/server/databases"
	"ingot/internal/server/diskspace"
	"ingot/internal/server/front"
	"ingot/internal/server/health"
	"ingot/internal/server/installation"
	"ingot/internal/server/pressure"
	"ingot/internal/server/report"
	"ingot/internal/server/steps"
)

// The parts that have to work before the server is ready.
const (
	partDisk          = "disk"
	partSecrets       = "secrets"
	partDatabase      = "database"
	partAuth          = "authorization server"
	partPlatform      = "platform"
	partNotifications = "notifications"
	partApps          = "apps"
)

// System is the whole server. It is a background.Service.
type System struct {
	config Config
	server
	calls     safedial.OwnCalls
	generated atomic.Pointer[datadir.Generated]
	engine    atomic.Pointer[engine.Engine]
	first     atomic.Pointer[FirstSpace]
	handover  handoverState
	// linkServer is the built-in authorization server of a server on loopback.
	linkServer atomic.Pointer[auth.Server]
}

var _ background.Service = (*System)(nil)

// New returns a server that is not running. It fails when the configuration is
// not valid.
func New(c Config) (*System, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	return &System{config: c}, nil
}

// Start returns when the server is ready. A start that fails leaves nothing
// running.
func (s *System) Start(ctx context.Context) error { return s.begin(ctx, s.start) }

// Generated returns the secrets that this start generated, to be shown once.
func (s *System) Generated() datadir.Generated {
	if g := s.generated.Load(); g != nil {
		return *g
	}
	return datadir.Generated{}
}

// Engine describes the engine that runs apps, once it was tried.
func (s *System) Engine(ctx context.Context) engine.Description {
	if e := s.engine.Load(); e != nil {
		return choice.Describe(ctx, *e)
	}
	return engine.Description{}
}

// SecretsDir returns the directory of the secrets.
func (s *System) SecretsDir() string { return filepath.Join(s.config.DataDir, datadir.SecretsDir) }

// Database describes the database for users, without its password.
func (s *System) Database() string {
	return databases.Describe(s.config.DatabaseURL)
}

func (s *System) start(ctx context.Context) error {
	c := s.config
	dir, ports, err := s.lockAndListen(ctx)
	if err != nil {
		return err
	}
	disk, err := diskspace.Open(diskspace.Options{Dir: c.DataDir, Reserve: c.DiskReserve, Log: c.Log})
	if err != nil {
		ports.close()
		return fmt.Errorf("data directory: %w", err)
	}

	b, drain, err := s.openPorts(ctx, dir, ports)
	if err != nil {
		return err
	}
	b.useDisk(disk)
	s.steps.Later(disk.Restock)
	var beside ahead
	if c.DatabaseURL == "" { // else another server may use the database: then this one opens no engine
		beside.engine = s.beginEngine(ctx, dir)
	}
	keys, err := dir.Keys(c.EncryptionKey, c.DatabaseURL, c.Log)
	if err != nil {
		return err
	}
	database, servers, err := s.openDatabase(ctx, b, dir, keys, &beside)
	if err != nil {
		return err
	}
	if beside.engine == nil {
		beside.engine = s.beginEngine(ctx, dir)
	}
	wanted, err := s.sharedSecrets(ctx, database, servers)
	if err != nil {
		return err
	}
	secrets, err := dir.Secrets(wanted)
	if err != nil {
		return err
	}
	s.generated.Store(&secrets.Generated)
	b.health.Ready(partSecrets, nil)
	if beside.users, err = s.beginUsers(ctx, secrets, database); err != nil {
		return err
	}
	r, err := s.startServices(ctx, b, dir, secrets, database, servers, &beside)
	if err != nil {
		return err
	}
	s.steps.Add(steps.Edge, drain)
	// It stops before the requests have finished, so that other servers take over its
	// apps at once.
	if err := s.steps.Run(ctx, servers.Working(r.clusterHandler())); err != nil {
		return err
	}
	// It stops first, because a session opened meanwhile could not be authorized.
	if err := s.steps.Run(ctx, b.gateway); err != nil {
		return err
	}
	s.handover.runtime = r
	if err := s.serveForwarded(ctx, b, r); err != nil {
		return err
	}
	if err := beside.users.wait(ctx); err != nil {
		return err
	}
	c.Log.Info("ready", "api", b.endpoints.API, "data_dir", c.DataDir)
	return nil
}

// openPorts opens the ports and answers health checks there; other requests get
// 503. drain stops the public servers and waits for their requests.
func (s *System) openPorts(ctx context.Context, dir *datadir.Dir, ports *listeners) (b *frontend, drain func(),
	err error) {
	c := s.config
	if ports.tls != nil {
		s.config = c.withTLS(ports.tls.Addr())
		c = s.config
	}
	b = newFrontend(c.Domain, c.Log)
	s.guardFront(b, ports)
	b.endpoints, b.ssh = ports.endpoints(c), ports.ssh
	b.health.Expect(partDisk, partSecrets, partDatabase, partAuth, partPlatform, partNotifications)
	if b.tracer, err = s.startTracing(ctx, c.Traces, c.roots, b, "ingot"); err != nil {
		return nil, nil, err
	}

	b.public, b.notifications = ports.public, ports.notifications
	ports.public, ports.notifications = b.limited(ports.public, c.Log), b.limited(ports.notifications, c.Log)
	b.fastPath = router.NewFastPath(ports.public)
	var handler http.Handler = b.front
	if ports.tls != nil {
		server, err := s.openSecure(ctx, b, ports.tls)
		if err != nil {
			ports.close()
			return nil, nil, err
		}
		b.edge, handler = append(b.edge, server), b.secure.Plain(b.front, handler)
	}
	public := web.NewServer(b.fastPath, b.front.Pipeline(handler, web.FormatV3), c.Log)
	notifications := web.NewServer(ports.notifications, b.front.Pipeline(b.front.Notifications(), web.FormatNotifications),
		c.Log)
	admin := web.NewServer(ports.admin, web.Pipeline(web.GuardOperator(b.admin, b.front.Health,
		web.OperatorNames(c.AdminListen, c.Domain, c.PublicURL), c.AdminToken, c.Log), web.FormatV3, c.Log), c.Log)
	// The ssh gateway is started last; clients wait until then.
	s.steps.Later(func() { _ = ports.ssh.Close() })
	b.edge = append(b.edge, public, notifications)
	if err := s.announce(ctx, dir, b.endpoints, []*web.Server{admin}, b.edge, c.Log); err != nil {
		return nil, nil, err
	}
	if c.redirects() {
		if b.endpoints.inner, err = s.openInner(ctx, b, c.Log); err != nil {
			return nil, nil, err
		}
	}
	s.endpoints.Store(&b.endpoints)
	s.built.Store(b)
	return b, func() {
		var parts []background.Service
		for _, server := range b.all() {
			parts = append(parts, server)
		}
		stopTogether(parts...)
		_, all := b.fastPaths()
		for _, fastPath := range all {
			fastPath.Drain()
		}
	}, nil
}

// announce starts the servers of the operator and of clients, and writes their addresses to
// DIR/endpoints.json.
func (s *server) announce(ctx context.Context, dir *datadir.Dir, e Endpoints, admin, public []*web.Server,
	log *slog.Logger) error {
	// All are stopped, started or not, because Stop closes their ports.
	for _, server := range admin {
		s.steps.Later(server.Stop)
	}
	for _, server := range public {
		s.steps.Add(steps.Edge, server.Stop)
	}
	for _, server := range slices.Concat(admin, public) {
		if err := server.Start(ctx); err != nil {
			return err
		}
	}
	err := dir.WriteJSON(endpointsFile, e, 0o644)
	if fault.IsDiskFull(err) && dir.OverwriteJSON(endpointsFile, e) == nil {
		err = nil // a server that was killed left one
	}
	if fault.IsDiskFull(err) {
		log.Warn("the addresses of the server could not be written: clients on this machine do not find it by itself", "file",
			dir.File(endpointsFile), "error", err)
	} else if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	s.steps.Add(steps.Own, func() { _ = os.Remove(dir.File(endpointsFile)) })
	return nil
}

func (s *System) openDatabase(ctx context.Context, b *frontend, dir *datadir.Dir,
	keys *seal.Keyring, beside *ahead) (*db.DB, *cluster.Cluster, error) {
	if err := databases.NotLost(s.config.DatabaseURL, dir.File(alerts.PositionFile)); err != nil {
		return nil, nil, err
	}
	d, err := s.steps.OpenDB(ctx, db.Options{URL: s.config.DatabaseURL, Keys: keys, Log: s.config.Log,
		Observe: b.databases.Observe(databases.Platform)})
	if err != nil {
		return nil, nil, err
	}
	b.databases.Add(databases.Platform, d)
	// First, so that a server that is refused changes nothing.
	c, err := s.joinCluster(ctx, b, dir, d)
	if err != nil {
		return nil, nil, err
	}
	beside.mail = s.beginMailing(ctx, databases.NotificationsURL(s.config.DatabaseURL, s.config.DataDir),
		dir.File(notificationsDir), keys, b.databases, s.config.Log)
	for _, m := range []db.Migrations{authdb.Migrations, platformdb.Migrations, consoledb.Migrations} {
		if err := d.Migrate(ctx, m); err != nil {
			return nil, nil, err
		}
	}
	b.disk.Hold(d.LogFile())
	if !d.Shared() || c.Exclusive {
		b.health.Ready(partDatabase, func(ctx context.Context) error { return errors.Join(d.Ping(ctx), c.Ready(ctx)) })
	} else {
		// When a database of several servers is away, none would be ready, and a load
		// balancer would send no more requests to the apps, which do not need it.
		b.health.Ready(partDatabase, c.Ready)
		b.health.Watch(partDatabase, func() string { return databases.Unreachable(d) })
	}
	sealed := slices.Concat(authdb.SealedColumns, platformdb.SealedColumns, consoledb.SealedColumns)
	return d, c, s.steps.Run(ctx, databases.Resealing(d, sealed, leadOf(c, "reseal"), s.config.Log))
}

func (s *System) startServices(ctx context.Context, b *frontend, dir *datadir.Dir, secrets *datadir.Secrets, d *db.DB,
	servers *cluster.Cluster, beside *ahead) (*runtime, error) {
	trusted, client, err := s.outgoing(s.config.MailConfig)
	if err != nil {
		return nil, err
	}
	r, err := s.openRuntime(ctx, b, dir, d, servers, trusted, beside.engine)
	if err := errors.Join(err, beside.users.needed(ctx, s.config.Demo)); err != nil {
		return nil, err
	}
	for _, c := range []prometheus.Collector{logs.Metrics{Store: r.logs}, r.Drains, r.proxy,
		installation.Metrics{Database: d, Last: s.lastBackup}} {
		b.registry.MustRegister(health.Recovering{Collector: c})
	}
	b.disk.OnLow(r.cleaner.LowDisk)
	if err := s.steps.Run(ctx, background.NewGroup(b.disk, pressure.Warnings(s.config.Log))); err != nil {
		return nil, err
	}
	if err := r.store.Update(ctx, r.ensureDefaults); err != nil {
		return nil, fmt.Errorf("first stack, domain and buildpacks: %w", err)
	}
	n, err := s.openNotifications(ctx, b, dir, secrets, client, r, trusted, beside.mail)
	if err != nil {
		return nil, fmt.Errorf("notification service: %w", err)
	}
	names := directory{uaaclient.New(uaaclient.Options{
		BaseURL: b.endpoints.Auth, ClientID: auth.ClientPlatform, Secret: secrets.Clients[auth.ClientPlatform], HTTP: client,
	})}
	r.Services.Dashboards = services.UAADashboards{Client: names.client}
	ssh, err := s.newGateway(ctx, b, dir, secrets, r, trusted)
	if err != nil {
		return nil, err
	}
	b.gateway = ssh
	// Two goroutines may publish at the same time; the later has the newer state.
	var publishing sync.Mutex
	publish := func(a authority) {
		publishing.Lock()
		defer publishing.Unlock()
		ssh.verifier.Store(a.Verifier(api.Audience))
		b.front.Live.Store(withConsole(s.routes(b, a, r, n, names, ssh), s.consoleOptions(client, secrets, d, ssh)))
		b.serveApps(r.proxy)
	}
	if err := s.openInside(ctx, b, r); err != nil {
		return nil, err
	}

	a, err := s.authority(b, d, servers, client, publish, beside.users)
	if err != nil {
		return nil, err
	}
	if err := s.steps.Run(ctx, a); err != nil {
		return nil, err
	}
	// Started before its callers, so that it stops after them.
	bundled, err := s.openBroker(dir, secrets, r, a)
	if err != nil {
		return nil, fmt.Errorf("service broker: %w", err)
	}
	if err := s.startBroker(ctx, bundled, r); err != nil {
		return nil, err
	}
	n.mountMailbox(b.admin)
	if err := s.startParts(ctx, b, d, r, n); err != nil {
		return nil, err
	}
	// Before readiness, so that clients that wait for it find the routes.
	publish(a)
	if err := s.startAlerts(ctx, b, dir, r, names.client, client); err != nil {
		return nil, err
	}
	b.health.Ready(partPlatform, nil)
	b.health.Ready(partNotifications, nil)
	if s.config.AuthURL == "" {
		b.health.Ready(partAuth, nil)
	}
	return r, nil
}

// startParts starts the parts that run apps and deliver notifications, and records
// which engine is used.
func (s *System) startParts(ctx context.Context, b *frontend, d *db.DB, r *runtime, n *notifications) error {
	parts := append(n.parts(), r.parts(s.config.Log)...)
	for _, part := range parts {
		kind := steps.Work
		if part == background.Service(r.access) || part == background.Service(r.tcp) {
			kind = steps.Edge
		}
		if err := s.steps.RunAs(ctx, kind, part); err != nil {
			return err
		}
	}
	if err := s.fillDemo(ctx, d, r); err != nil {
		return fmt.Errorf("--demo: %w", err)
	}
	if err := s.findFirstSpace(ctx, r); err != nil {
		return err
	}
	s.engine.Store(&r.engine)
	b.health.Watch(partApps, func() string { return r.engine.Describe().Held })
	hosts := r.hasHost
	b.hosts.Store(&hosts)
	b.registry.MustRegister(health.Recovering{Collector: choice.HeldMetric(r.engine)},
		health.Recovering{Collector: choice.FirewallMetric(r.engine)},
		health.Recovering{Collector: census.Rows{Store: r.store, Waiting: r.access.Waiting}},
		health.Recovering{Collector: census.Members{Store: r.store, Usage: r.Apps.Usage}})
	blobs := &census.Blobs{Store: r.blobs, Log: s.config.Log}
	b.registry.MustRegister(health.Recovering{Collector: blobs})
	if err := s.steps.Run(ctx, blobs.Service(s.config.BlobURL != "")); err != nil {
		return err
	}
	return s.openACME(ctx, b, r)
}

// fillDemo creates an organization and a space for --demo.
func (s *System) fillDemo(ctx context.Context, d *db.DB, r *runtime) error {
	if !s.config.Demo || s.config.AuthURL != "" {
		return nil
	}
	admin, err := authdb.New(d).UserByName(ctx, "admin", auth.OriginUAA)
	if errors.Is(err, auth.ErrNotFound) {
		return nil // the user was deleted, so there is no one to create the demo for
	}
	if err != nil {
		return err
	}
	return r.store.Update(ctx, func(tx platform.Tx) error { return r.platform.EnsureDemo(tx, admin.ID) })
}

// createUsers creates users and clients of the built-in authorization server.
func (s *System) createUsers(ctx context.Context, secrets *datadir.Secrets, d *db.DB) error {
	err := auth.Bootstrap(ctx, authdb.New(d), auth.Secrets{
		AdminPassword: secrets.AdminPassword, AdminClientSecret: secrets.AdminClientSecret, Components: secrets.Clients,
		AdminEmail: cmp.Or(s.config.AdminEmail, "admin@"+s.config.Domain),
	}, []string{console.CallbackPath}, s.config.Log)
	if err != nil {
		return fmt.Errorf("first users and clients: %w", err)
	}
	return nil
}

// authority returns the built-in authorization server, or the external one.
func (s *System) authority(b *frontend, d *db.DB, servers *cluster.Cluster, client *http.Client,
	publish func(authority), users *firstUsers) (authority, error) {
	c := s.config
	if c.AuthURL != "" {
		var other *external.Server
		other = external.New(c.AuthURL, client, c.Log, func() {
			publish(other)
			b.health.Ready(partAuth, nil)
		})
		return other, nil
	}
	base := cmp.Or(c.PublicURL, b.endpoints.API)
	limits, _, err := c.LoginLimits.Parse()
	if err != nil {
		return nil, err
	}
	o := auth.Options{
		Store: authdb.New(d), BaseURL: base, Log: c.Log, Shared: d.Shared(), PasswordGrant: c.PasswordGrant,
		Lead: leadOf(servers, "purge-auth"), Registry: b.registry, Proxies: c.proxies(), Limits: limits,
	}
	if !servers.Alone() {
		o.Servers = servers.Servers
	}
	if users.first {
		o.First = users.wait
	}
	own, err := auth.New(o)
	if err != nil {
		return nil, err
	}
	s.offerLinks(b, own)
	return own, nil
}

// routes returns the route tables. They are built again when the issuer of an
// external authorization server is known, because the verifier changes.
func (s *System) routes(b *frontend, a authority, r *runtime, n *notifications, names directory,
	ssh *gateway) *front.Routes {
	c := s.config
	verifier := a.Verifier(api.Audience, serviceapi.DashboardAudience)
	blobs := uploads.Blobs{Store: r.blobs, Scratch: r.scratch, Sign: r.sign, Deltas: &r.deltas}
	options := api.Options{
		Store: r.store, Platform: r.platform, Services: r.Services, Directory: names, Runtime: r, Traffic: r.traffic,
		Series: r.recorder, Blobs: blobs, DownloadLinks: r.links, Repositories: blobs, Git: r.git, Claim: r.cluster.Claim,
		InspectDroplet: staging.InspectUpload, Logs: r.logs,
		Verifier: verifier, Log: c.Log, Scratch: r.scratch, SSHAddress: ssh.address(),
		SSHFingerprint:   ssh.Fingerprint(),
		NotificationsURL: cmp.Or(c.NotificationsURL, b.endpoints.Notifications), IdentityAuthority: r.identity.PEM(),
		ConsolePath: console.Path,
		Enforces:    r.unenforced, NoPolicies: r.noPolicies(), Limiter: r.limiter,
	}
	if c.AuthURL != "" {
		options.AuthURL = func(*http.Request) string { return c.AuthURL }
	}
	t := &front.Routes{
		Origin: web.NewMux(web.FormatV3, c.Log, b.metrics),
		Logs:   web.NewMux(web.FormatV3, c.Log, b.metrics),
		Apps:   r.proxy,
		Routed: r.Publisher.Loaded,
	}
	api.New(options).Routes(t.Origin)
	logs.Routes(r.logs, r.Info, logs.Options{History: r.history}, t.Origin.Group("logs", web.FormatV3, verifier),
		t.Logs.Group("logs", web.FormatV3, verifier))
	a.Routes(t.Origin)
	if c.AuthURL == "" {
		t.Auth = web.NewMux(web.FormatOAuth, c.Log, b.metrics)
		a.Routes(t.Auth)
		health.Routes(t.Auth, b.health)
	}
	descriptionRoutes(t.Origin)
	s.report(b, r).Routes(t.Origin.Group("system", web.FormatV3, verifier),
		web.Scope(platform.ScopeAdmin, platform.ScopeAdminReadOnly, platform.ScopeGlobalAuditor))
	health.Routes(t.Origin, b.health)
	t.Notifications = n.routes(a.Verifier(notificationAudiences...), b)
	health.Routes(t.Logs, b.health)
	t.Origin.Room = b.disk.Room
	return t
}

// lastBackup returns what is known about the last backup of this server.
func (s *System) lastBackup(ctx context.Context, d *db.DB) (installation.BackupState, error) {
	return Parts().LastOf(ctx, s.config.DataDir, d)
}

// report returns what GET /v3/ingot/system shows.
func (s *System) report(b *frontend, r *runtime) report.Source {
	return report.Source{
		Engine: func() report.Engine {
			e := r.engine.Describe()
			return report.Engine{Name: e.Name, Isolated: e.Isolated, Detail: e.Detail, Held: e.Held}
		},
		Database: b.databases.Platform, LastBackup: s.lastBackup, Servers: r.cluster.List, Disk: b.disk,
		Certificates: b.secure.inUse, Pressure: pressure.Machine, Registry: b.registry,
	}
}
