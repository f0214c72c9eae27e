package system

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/safedial"
	"ingot/internal/base/version"
	"ingot/internal/base/web"
	"ingot/internal/broker"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/actions/metering"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/builds"
	"ingot/internal/platform/api/traffic"
	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/edge/router/accesslog"
	"ingot/internal/platform/edge/routetable"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/choice"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/agentkeys"
	"ingot/internal/platform/instance/dns"
	"ingot/internal/platform/instance/identity"
	"ingot/internal/platform/instance/instancenet"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/appinfo"
	"ingot/internal/platform/logs/logdb"
	"ingot/internal/platform/logs/recorded"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/run/cleanup"
	"ingot/internal/platform/run/controller"
	"ingot/internal/platform/run/controller/routing"
	"ingot/internal/platform/run/controller/usage"
	"ingot/internal/platform/run/gitfetch"
	"ingot/internal/platform/run/netrules"
	"ingot/internal/platform/run/recorder"
	"ingot/internal/platform/run/registry"
	"ingot/internal/platform/run/signals"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/deltas"
	"ingot/internal/server/cluster"
	"ingot/internal/server/roots"
	"ingot/internal/server/steps"
)

// runtime is everything that runs apps. Its signals have the parts that are told of changes.
type runtime struct {
	signals.Signals
	files
	edge
	cluster   *cluster.Cluster
	store     *platformdb.Store
	platform  *actions.Platform
	logs      logs.Store
	history   *logs.History
	engine    engine.Engine
	watched   engine.Engine                         // the same, with calls that always return
	replacing atomic.Pointer[controller.Controller] // Apps, once it exists
	identity  *identity.Authority
	others    []background.Service // of the controller, besides Apps and Tasks
	stager    *staging.Stager
	broker    atomic.Pointer[broker.Broker] // the bundled one, once it runs
	inside    *instancenet.Plan             // how instances reach the platform
	sftp      string                        // the sftp server, as instances see it
	cleaner   *cleanup.Cleaner
	recorder  *recorder.Recorder
	keys      *agentkeys.Keeper // of agents; nil if the engine has none
}

// files are the files of apps: packages, droplets and what is made of them.
type files struct {
	blobs   blob.Store
	sign    blob.Signer   // nil if downloads go through the server
	links   builds.Links  // with which they do
	objects logdb.Objects // for old log lines; nil without a bucket
	scratch string
	deltas  deltas.Droplets
}

// edge is where requests come in.
type edge struct {
	table    *router.Table
	internal *dns.InternalNames
	routes   safedial.Routes
	proxy    *router.Proxy
	tcp      *router.TCP
	traffic  *traffic.Counter
	access   *accesslog.Log
	git      *gitfetch.Client
	limiter  web.Limiter // of requests to the API; nil means none
}

// hasHost reports whether a host name has a route.
func (r *runtime) hasHost(name string) bool {
	_, ok := r.table.Host(name)
	return ok || !r.Publisher.Loaded()
}

// shortestDeployment gives a client that did not wait for the end of a deployment time to
// ask for its status: the cf CLI looks for the first new instance every three seconds.
const shortestDeployment = 5 * time.Second

// minHealthyTime is how long new instances of a deployment have to be ready before they
// replace others, unless the user sets another time.
const minHealthyTime = 3 * time.Second

// openRuntime opens the stores and the engine and connects the parts, without
// starting them.
func (s *System) openRuntime(ctx context.Context, b *frontend, dir *datadir.Dir, d *db.DB, servers *cluster.Cluster,
	trusted *roots.Roots, apps *openingEngine) (*runtime, error) {
	c, e, diskSize := s.config, b.endpoints, b.disk.Size()
	r := &runtime{
		Signals: signals.Signals{Bus: servers, Log: c.Log}, cluster: servers, store: platformdb.New(d),
		platform: actions.New(), edge: edge{table: &router.Table{}, internal: &dns.InternalNames{}},
	}
	r.Info = appinfo.New(r.store, c.Listen, func(ctx context.Context, instances ...string) map[string]usage.Usage {
		return r.Apps.Usage(ctx, instances...)
	})
	r.history = logs.NewHistory(r.Info)
	// On a small machine a build gets the whole disk.
	r.platform.StagingDiskMB = max(1, min(r.platform.StagingDiskMB, int(diskSize>>20)))
	r.platform.SystemDomain, r.platform.Reserved = c.Domain, c.ownNames()
	var err error
	if r.scratch, err = dir.Scratch(); err != nil {
		return nil, err
	}
	if err := s.openBlobs(ctx, dir, r, trusted); err != nil {
		return nil, err
	}
	if r.logs, err = openLogs(ctx, dir, d, servers, r.objects, c); err != nil {
		return nil, err
	}
	if r.Drains, err = openDrains(r, dir, c, trusted); err != nil {
		return nil, err
	}
	if r.engine, r.sftp, err = apps.join(r); err != nil {
		return nil, err
	}
	r.platform.NoMemberLimits = r.engine.Describe().NoMemberLimits
	r.watched = c.seams.engineFor(r.engine)
	if _, ok := r.engine.(*kubernetes.Engine); !ok { // there, nodes have labels
		r.watched = engine.InSegments(r.watched, segments(c.IsolationSegments))
	}
	s.steps.Later(func() { _ = r.watched.Close() })
	if r.inside, err = instancenet.New(platformServices(c, e), gatewayOf(r.engine)); err != nil {
		return nil, err
	}
	r.routes = safedial.Routes{Calls: &s.calls, At: cmp.Or(e.inner, strings.TrimPrefix(e.API, "http://")),
		Has: func(host, path string) bool {
			_, found := r.table.Lookup(host, path)
			return found
		}}
	if err := s.openRouter(b, r, trusted); err != nil {
		return nil, err
	}
	if r.identity, err = s.openIdentity(ctx, r); err != nil {
		return nil, err
	}
	images := openImages(c, trusted)
	r.git = openGit(c, r, trusted)
	if err := r.openRecorder(b, dir, d, c.Log); err != nil {
		return nil, err
	}
	r.openControllers(c, images)
	if r.stager, err = openStager(c, r, images, trusted); err != nil {
		return nil, err
	}
	r.Builds = staging.NewBuilds(staging.BuildsConfig{
		Store: r.store, Platform: r.platform, Stager: r.stager, Lines: r.logs, Owner: owner{r.cluster},
		API: r.inside.API, Log: c.Log,
		Tracer: b.tracer, Metrics: staging.NewMetrics(b.recording(), r.stager),
	})
	r.cleaner = cleanup.New(cleanup.Config{Store: r.store, Blobs: r.blobs, Logs: r.logs, Engine: r.engine,
		Builds: r.stager, Rows: r.store, PurgeTasks: r.platform.PurgeTasks,
		PurgeUsage: func(tx platform.Tx) error { return metering.Purge(tx, time.Now()) },
		Lead:       r.cluster.Lead, SharedLogs: r.sharesLogs(), Log: c.Log})
	r.Services = openServices(b, c, r, trusted)
	r.limiter = s.limiter(servers.Servers)
	if enforcer, ok := r.engine.(engine.Enforcer); ok {
		r.Rules = netrules.New(r.store, enforcer, c.Log)
	}
	r.connect()
	r.keys = r.keepKeys()
	if c.seams.runtime != nil {
		c.seams.runtime(r)
	}
	return r, nil
}

// openGit returns the client of git servers.
func openGit(c Config, r *runtime, trusted *roots.Roots) *gitfetch.Client {
	return gitfetch.New(gitfetch.Config{Guard: c.guard(), Routes: sharedRoutes(r), TLS: trusted.TLS(),
		UserAgent: "ingot/" + version.Version, Scratch: r.scratch})
}

// openImages returns the client of registries.
func openImages(c Config, trusted *roots.Roots) *registry.Client {
	return registry.New(registry.Config{
		Guard: c.guard(), Insecure: c.insecureRegistries(), UserAgent: "ingot/" + version.Version, TLS: trusted.TLS(),
	})
}

// openRecorder creates what records the series of apps.
func (r *runtime) openRecorder(b *frontend, dir *datadir.Dir, d *db.DB, log *slog.Logger) (err error) {
	server := "local"
	if d.Shared() {
		if server, err = dir.ID(); err != nil {
			return err
		}
	}
	r.recorder = recorder.New(recorder.Config{
		Store: r.store, Server: server, Log: log, Requests: r.proxy.Stats, Platform: b.figures,
		Running: func() []controller.Running { return r.Apps.Running() },
		Usage: func(ctx context.Context, instances ...string) map[string]usage.Usage {
			return r.Apps.Usage(ctx, instances...)
		},
		Types: func(ctx context.Context, processes []string) (map[string]string, error) {
			return db.Within(ctx, r.store.View, func(tx platform.Tx) (map[string]string, error) {
				return typesOf(tx, processes)
			})
		},
	})
	r.history.Past = &recorded.Source{Reader: r.recorder}
	return nil
}

// typesOf returns the types of processes.
func typesOf(tx platform.Tx, guids []string) (map[string]string, error) {
	list, _, err := tx.Processes().List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)},
		WithoutSecrets: true})
	types := make(map[string]string, len(list))
	for _, p := range list {
		types[p.GUID] = p.Type
	}
	return types, err
}

// openControllers connects what runs apps and tasks and publishes their routes.
func (r *runtime) openControllers(c Config, images *registry.Client) {
	running := controller.Config{
		Store: r.store, Platform: r.platform, Owner: owner{r.cluster}, Peers: signals.Peers{Bus: r.cluster},
		Engine: r.watched, Logs: r.logs, Droplets: dropletFiles{r.blobs, &r.deltas, r.layers()}, Images: images,
		API:       r.inside.API,
		Variables: r.inside.Variables(), BindingsRoot: bindingsRoot(r.engine), Reach: r.reachOf,
		InternalNames: internalNames(r), Identity: r.identity, Replace: r.sftp, Traffic: r.proxy, Log: c.Log,
		Crashed:            r.recorder.Crashed,
		ShortestDeployment: shortestDeployment, MinHealthy: minHealthyTime,
	}
	r.Apps, r.Tasks = controller.New(running), controller.NewTasks(running)
	r.others = []background.Service{controller.NewRenewals(running), controller.NewRotations(running)}
	r.replacing.Store(r.Apps)
	r.Publisher = routing.New(routing.Config{Store: r.store, Backends: r.Apps, Table: routetable.Tables{Public: r.table,
		Internal: r.internal}, Log: c.Log})
	r.Apps.Notify(r.Publisher)
}

// connect tells the parts of changes.
func (r *runtime) connect() {
	r.Lines, r.Busy = r.logs, r.proxy.Busy
	r.store.Notify(&r.Signals)
	r.store.Watch(metering.Meter)
}

// openStager creates what builds apps.
func openStager(c Config, r *runtime, images *registry.Client, trusted *roots.Roots) (*staging.Stager, error) {
	gitCA, err := gitRoots(r.scratch, trusted)
	if err != nil {
		return nil, err
	}
	stored := staging.StoreCatalog{Store: r.store}
	return staging.New(staging.Config{
		TLS: trusted.TLS(), CAFile: gitCA,
		Engine: r.watched, Blobs: r.blobs, Images: images, Catalog: stored, Deltas: &r.deltas, Layers: r.layers(),
		Programs: c.Programs, Scratch: r.scratch, Log: c.Log,
		Wanted: stored.Wanted, Variables: r.inside.Variables(), Reach: r.reachOf, User: appUser, Group: appUser,
		MemoryMB: r.platform.StagingMemoryMB, DiskMB: r.platform.StagingDiskMB,
	}), nil
}

// openRouter creates the HTTP and the TCP router, with what they log and count.
func (s *System) openRouter(b *frontend, r *runtime, trusted *roots.Roots) error {
	c := s.config
	r.access = accesslog.New(r.logs, c.Log)
	proxied := router.Options{
		AccessLog: r.access.Add, RouteServices: c.guard(), RouteServiceTLS: trusted.TLS(), Trusted: s.trust().Has,
		ClientCerts: c.clientCerts(), Log: c.Log, Tracer: b.tracer,
	}
	reasons := &controller.PortReasons{Store: r.store, Get: r.watched.Get, Tell: r.logs.Tell}
	proxied.Refused = func(b router.Backend) {
		_ = reasons.Explain(b.AppGUID, b.ProcessGUID, b.InstanceGUID, b.Index, b.Port)
	}
	if c.Engine == "kubernetes" {
		proxied.DialTimeout = time.Second // a node that is gone refuses no connections
	}
	r.proxy = router.NewProxy(r.table, proxied)
	s.steps.Add(steps.Edge, r.proxy.Close)
	r.traffic = &traffic.Counter{Proxy: r.proxy, Log: c.Log}
	if !r.cluster.Alone() {
		r.traffic.Store = r.store
	}
	return s.openTCP(r)
}

// ensureDefaults stores the resources that every platform has.
func (r *runtime) ensureDefaults(tx platform.Tx) error {
	if err := r.platform.EnsureDefaults(tx, r.platform.SystemDomain); err != nil {
		return err
	}
	return staging.EnsureBundled(tx)
}

// appUser is the user and group of apps and builds: vcap.
const appUser = 2000

// parts returns what has to be started, in this order.
func (r *runtime) parts(log *slog.Logger) []background.Service {
	parts := []background.Service{r.logs, r.Drains, r.access}
	if r.Rules != nil {
		parts = append(parts, r.Rules) // before instances are started
	}
	parts = append(append(parts, r.tcp, r.history, r.Apps, r.Tasks), r.others...)
	parts = append(parts, r.Publisher, r.stager, r.Builds, r.Services, r.cleaner.Periodic(),
		choice.Recheck(r.engine, log), background.Every(protectInterval, r.protect))
	if r.keys != nil {
		parts = append(parts, background.Every(agentkeys.Interval, r.keys.Check))
	}
	return append(parts, r.traffic.Service(), r.recorder)
}

// Usage implements apps.Runtime.
func (r *runtime) Usage(ctx context.Context, instances []*platform.Instance) map[string]apps.InstanceUsage {
	guids := make([]string, 0, len(instances))
	for _, one := range instances {
		guids = append(guids, one.GUID)
	}
	out, lost := map[string]apps.InstanceUsage{}, r.logs.Lost(guids...)
	for guid, u := range r.Apps.Usage(ctx, guids...) {
		out[guid] = apps.InstanceUsage{Time: u.Time, CPU: u.CPU, Memory: u.Memory, Disk: u.Disk, LogRate: u.LogRate,
			LogLost: lost[guid], Members: membersForAPI(u.Members)}
	}
	return out
}

// layers reports whether the engine keeps archives unpacked.
func (r *runtime) layers() bool { return r.watched.Describe().Name == "container" }

// dropletFiles opens droplets for the controller.
type dropletFiles struct {
	blobs  blob.Store
	deltas *deltas.Droplets
	// layers means that the engine keeps archives unpacked.
	layers bool
}

func (d dropletFiles) Open(ctx context.Context, guid string) (io.ReadCloser, error) {
	return d.blobs.Open(ctx, blob.Droplets, guid)
}

// changeKey is the prefix of the cache key of files over those of a droplet.
const changeKey = "change-"

// Layers returns the droplet that another one was made from and what changed, if both are
// known: the engine has the first unpacked already.
func (d dropletFiles) Layers(ctx context.Context, guid string) []engine.Archive {
	base, layer, ok := d.deltas.Find(guid)
	if !ok || !d.layers {
		return nil
	}
	if _, err := d.blobs.Stat(ctx, blob.Droplets, base.GUID); err != nil {
		return nil // it has expired
	}
	files, err := layer.Tar()
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(files)
	return []engine.Archive{
		{Key: controller.DropletKey + base.Checksum, Open: func() (io.ReadCloser, error) { return d.Open(ctx, base.GUID) }},
		{Key: changeKey + hex.EncodeToString(sum[:]), Changes: true,
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }},
	}
}
