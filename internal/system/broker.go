package system

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	"ingot/internal/auth"
	"ingot/internal/base/datadir"
	"ingot/internal/broker"
	"ingot/internal/platform"
	"ingot/internal/platform/edge/sshd"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/run/controller"
	"ingot/internal/platform/run/staging"
)

const (
	// bundledBroker is the name of the bundled broker on the platform.
	bundledBroker = "ingot"
	// servicesDir in the data directory contains the servers of services.
	servicesDir = "services"
)

// openBroker returns the bundled broker. Its servers run as separate users, and
// apps connect to them over the network of their engine.
func (s *System) openBroker(dir *datadir.Dir, secrets *datadir.Secrets, r *runtime,
	a authority) (*broker.Broker, error) {
	c := s.config
	if err := dir.AllowTraversal(); err != nil {
		return nil, err
	}
	ports := gatewayPorts{s.handover.sockets}
	reach := broker.Reach{Listen: ports.service}
	if e, ok := r.engine.(*container.Engine); ok {
		reach = broker.Reach{Host: e.Gateway(), From: e.Subnet(),
			Owner: func(a netip.Addr) string { return e.Labels(a)[controller.LabelApp] }, Listen: ports.service}
	}
	var notifications *broker.NotificationService
	if own, ok := a.(*auth.Server); ok {
		notifications = &broker.NotificationService{URL: r.inside.Notifications, AuthURL: r.inside.Auth, Clients: own}
	}
	return broker.New(broker.Config{
		Notifications: notifications,
		Dir:           dir.File(servicesDir), Keys: secrets.Keys, PostgresURL: c.PostgresURL, MySQLURL: c.MySQLURL,
		Reach: reach, Log: c.Log,
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

// completeReach allows instances that an older version started to connect to their
// services, and to what the rules of their space say.
func (r *runtime) completeReach(ctx context.Context, log *slog.Logger) {
	e, ok := r.engine.(*container.Engine)
	if !ok {
		return
	}
	err := e.Complete(func(labels map[string]string) []netip.AddrPort {
		list, err := r.reachOf(ctx, labels[controller.LabelApp])
		if err != nil {
			log.Warn("an app cannot connect to its services until it is restarted", "app", labels[controller.LabelApp],
				"error", err)
		}
		return list
	}, func(labels map[string]string) (engine.Zone, string) {
		zone, app := engine.Zone{Staging: labels[staging.LabelKind] == staging.KindValue}, labels[controller.LabelApp]
		err := r.store.View(ctx, func(tx platform.Tx) error {
			row, err := tx.Apps().Get(app)
			if err == nil {
				zone.Space = row.SpaceGUID
			}
			return err
		})
		if err != nil {
			log.Warn("the space of an app could not be read; its security groups count for its running instances once it is "+
				"restarted", "app", app, "error", err)
		}
		return zone, app
	})
	if err != nil {
		log.Warn("some apps cannot connect to their services until they are restarted", "error", err)
	}
}

// startBroker starts the bundled broker and registers it with the platform. If
// registering fails, apps run without it.
func (s *System) startBroker(ctx context.Context, b *broker.Broker, r *runtime) error {
	if err := b.Start(ctx); err != nil {
		return fmt.Errorf("service broker: %w", err)
	}
	// Its servers, and the connections of apps to them, outlive a process that is replaced.
	s.steps.AddEdge(b.Stop, b.Leave)
	missing := b.Missing()
	for _, offering := range slices.Sorted(maps.Keys(missing)) {
		s.config.Log.Info("a bundled service is not available", "offering", offering, "why", missing[offering])
	}
	r.broker.Store(b)
	r.completeReach(ctx, s.config.Log)
	if err := r.Services.Register(ctx, bundledBroker, b.URL(), broker.Username, b.Password()); err != nil {
		s.config.Log.Warn("the bundled service broker could not be registered", "error", err)
	}
	return nil
}
