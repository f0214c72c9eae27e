package system

import (
	"ingot/internal/base/web"
	"ingot/internal/platform/services"
	"ingot/internal/platform/services/osb"
)

// openServices returns the client of service brokers.
func openServices(c Config, r *runtime, publicURL string) *services.Services {
	return services.New(services.Config{
		Store: r.store, Platform: r.platform, Signals: r, Log: c.Log, Number: web.Number, Worker: services.WorkerName(c.DataDir),
		Broker: osb.Options{Timeout: c.BrokerTimeout, Through: c.seams.broker, Guard: c.guard(), Routes: r.routes, PlatformURL: publicURL},
	})
}
