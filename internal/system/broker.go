package system

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	"ingot/internal/auth"
	"ingot/internal/broker"
	"ingot/internal/platform/controller"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/sshd"
)

// bundledBroker is the name under which the platform knows the broker that
// comes with the server.
const bundledBroker = "ingot"

// openBroker makes the bundled broker. Its servers run as users of their own,
// and apps reach them on the network of their engine.
func (s *System) openBroker(dir *dataDir, secrets *secrets, r *runtime, a authority) (*broker.Broker, error) {
	c := s.config
	if err := dir.letThrough(); err != nil {
		return nil, err
	}
	reach := broker.Reach{}
	if e, ok := r.engine.(*container.Engine); ok {
		reach = broker.Reach{Host: e.Gateway(), From: e.Subnet(), Owner: func(a netip.Addr) string { return e.Labels(a)[controller.LabelApp] }}
	}
	var notifications *broker.NotificationService
	if own, ok := a.(*auth.Server); ok {
		notifications = &broker.NotificationService{URL: r.inside.Notifications, AuthURL: r.inside.Auth, Clients: own}
	}
	return broker.New(broker.Config{
		Notifications: notifications,
		Dir:           dir.file("services"), Keys: secrets.keys, PostgresURL: c.PostgresURL, MySQLURL: c.MySQLURL, Reach: reach, Log: c.Log,
	})
}

// reachOf returns the addresses of the services that an app is bound to, for the
// firewall of its instances.
func (r *runtime) reachOf(ctx context.Context, app string) ([]netip.AddrPort, error) {
	if b := r.broker.Load(); b != nil {
		return b.Endpoints(ctx, app)
	}
	return nil, nil
}

// runningBroker returns the bundled broker, or nil if it is not running.
func (r *runtime) runningBroker() sshd.Broker {
	if b := r.broker.Load(); b != nil {
		return b
	}
	return nil
}

// completeReach gives instances of an older server the addresses of their
// services.
func (r *runtime) completeReach(ctx context.Context, log *slog.Logger) {
	e, ok := r.engine.(*container.Engine)
	if !ok {
		return
	}
	err := e.Complete(func(labels map[string]string) []netip.AddrPort {
		list, err := r.reachOf(ctx, labels[controller.LabelApp])
		if err != nil {
			log.Warn("an app does not reach its services before it is restarted", "app", labels[controller.LabelApp], "error", err)
		}
		return list
	})
	if err != nil {
		log.Warn("some apps do not reach their services before they are restarted", "error", err)
	}
}

// startBroker starts the bundled broker and makes it known to the platform. A
// marketplace that is empty for now is no reason not to run apps.
func (s *System) startBroker(ctx context.Context, b *broker.Broker, r *runtime) error {
	if err := s.run(ctx, b); err != nil {
		return fmt.Errorf("service broker: %w", err)
	}
	missing := b.Missing()
	for _, offering := range slices.Sorted(maps.Keys(missing)) {
		s.config.Log.Info("the marketplace does not offer this", "offering", offering, "why", missing[offering])
	}
	r.broker.Store(b)
	r.completeReach(ctx, s.config.Log)
	if err := r.registerBroker(ctx, bundledBroker, b.URL(), broker.Username, b.Password()); err != nil {
		s.config.Log.Warn("the bundled services could not be put on the marketplace", "error", err)
	}
	return nil
}
