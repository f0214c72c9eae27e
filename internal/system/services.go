package system

import (
	"cmp"

	"ingot/internal/base/web"
	"ingot/internal/platform/services"
	"ingot/internal/platform/services/osb"
	"ingot/internal/server/roots"
)

// openServices returns the client of service brokers.
func openServices(b *frontend, c Config, r *runtime, trusted *roots.Roots) *services.Services {
	return services.New(services.Config{
		Store: r.store, Platform: r.platform, Log: c.Log, Number: web.Number,
		Worker: services.WorkerName(c.DataDir),
		Broker: osb.Options{Timeout: c.BrokerTimeout, Through: c.seams.broker, Guard: c.guard(), Routes: r.routes,
			PlatformURL: cmp.Or(c.PublicURL, b.endpoints.API),
			TLS:         trusted.TLS(), Tracer: b.tracer, Metrics: osb.NewMetrics(b.registry)},
	})
}
