package choice

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
)

// heldInterval is how often an engine that starts no instances is checked again.
const heldInterval = 15 * time.Second

// Recheck returns the service that checks an engine that starts no instances
// because it does not work, so that it starts them once it does.
func Recheck(e engine.Engine, log *slog.Logger) background.Service {
	return background.Every(heldInterval, func(ctx context.Context) { recheck(ctx, e, log) })
}

func recheck(ctx context.Context, e engine.Engine, log *slog.Logger) {
	c, ok := e.(interface{ Check(context.Context) error })
	if !ok || e.Describe().Held == "" {
		return
	}
	if err := c.Check(ctx); err != nil {
		log.Debug("the engine still does not work", "engine", e.Describe().Name, "why", err)
		return
	}
	log.Info("the engine works again; starting app instances", "engine", e.Describe().Name)
}

// Describe describes an engine. It waits for a trial at the start of the server, because no instances are
// started if that fails.
func Describe(ctx context.Context, e engine.Engine) engine.Description {
	if t, ok := e.(interface{ Tried(context.Context) error }); ok {
		_ = t.Tried(ctx) // without a result it is described as if it worked
	}
	return e.Describe()
}

// FirewallMetric counts how often another program has changed the firewall of an engine.
func FirewallMetric(e engine.Engine) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "ingot_firewall_restored_total",
		Help: "How often another program removed or changed the firewall of app instances, which was restored each time; " +
			"the log names the program.",
	}, func() float64 {
		if f, ok := e.(interface{ FirewallRestored() int64 }); ok {
			return float64(f.FirewallRestored())
		}
		return 0
	})
}

// HeldMetric is 1 while an engine starts no instances.
func HeldMetric(e engine.Engine) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ingot_apps_held_back",
		Help: "1 while the server starts no app instances because its engine does not work; /readyz of the admin listener " +
			"says why.",
	}, func() float64 {
		if e.Describe().Held != "" {
			return 1
		}
		return 0
	})
}
