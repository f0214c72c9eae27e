package system

import (
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/platform/edge/router"
	"ingot/internal/server/databases"
	"ingot/internal/server/diskspace"
	"ingot/internal/server/front"
	"ingot/internal/server/health"
	"ingot/internal/server/pressure"
)

// frontend is what answers requests: listeners, route tables, health checks and
// metrics.
type frontend struct {
	health    *health.Readiness
	front     *front.Front
	fastPath  *router.FastPath
	secure    *secure // nil without TLS
	admin     *web.Mux
	registry  *prometheus.Registry
	recorded  *prometheus.Registry // the metrics that are in the history of the platform
	metrics   *web.Metrics
	databases *databases.Metrics
	tracer    *tracing.Tracer // nil if traces are not enabled
	endpoints Endpoints
	// proxied wraps a listener of clients: it reads PROXY headers.
	proxied func(net.Listener) net.Listener
	ssh     net.Listener
	gateway *gateway
	disk    *diskspace.Guard

	public, notifications net.Listener
	// edge are the servers of public and notifications.
	edge []*web.Server
	// The servers for instances, beside public and notifications.
	instanceListeners []*router.FastPath
	servers           []*web.Server
	// owner returns the app of an instance's address; nil until the engine is open.
	owner atomic.Pointer[func(netip.Addr) (string, bool)]
	// hosts reports whether a host has a route; nil until the routes are known.
	hosts atomic.Pointer[func(host string) bool]
}

// fastPaths returns the fast paths that serve apps, and all of them.
func (b *frontend) fastPaths() (serving, all []*router.FastPath) {
	all = append(all, b.instanceListeners...)
	if b.secure != nil {
		all = append(all, b.secure.fastPath)
	}
	serving, all = all, append(all, b.fastPath)
	if b.secure == nil || !b.secure.Redirects {
		serving = all
	}
	return serving, all
}

// serveApps lets the fast paths serve requests to apps.
func (b *frontend) serveApps(p *router.Proxy) {
	serving, _ := b.fastPaths()
	for _, fastPath := range serving {
		fastPath.Use(p, func(host string) bool { return b.front.Target(host) != front.App })
	}
}

// newFrontend returns a frontend that answers health checks and the operator;
// other requests get 503.
func newFrontend(domain string, log *slog.Logger) *frontend {
	b := &frontend{health: &health.Readiness{}, registry: health.NewRegistry(),
		recorded: prometheus.NewRegistry()}
	b.metrics, b.databases = web.NewMetrics(b.registry), databases.NewMetrics()
	b.registry.MustRegister(health.Recovering{Collector: b.health}, health.Recovering{Collector: b.databases},
		health.Recovering{Collector: pressure.Metrics{}})
	starting := web.NewMux(web.FormatV3, log, b.metrics)
	health.Routes(starting, b.health)
	b.front = &front.Front{Domain: domain, Log: log, Health: starting}
	b.admin = web.NewMux(web.FormatV3, log, b.metrics)
	health.OperatorRoutes(b.admin, b.health)
	health.DebugRoutes(b.admin, b.registry)
	return b
}

// useDisk checks and measures the disk of the data directory.
func (b *frontend) useDisk(disk *diskspace.Guard) {
	b.disk = disk
	b.registry.MustRegister(health.Recovering{Collector: disk})
	b.health.Ready(partDisk, disk.Ready)
}
