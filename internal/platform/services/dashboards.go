package services

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services/osb"
)

// Dashboards stores the OAuth clients with which the dashboards of brokers log in
// users. The authorization server implements it through its public API.
type Dashboards interface {
	// Exists reports whether any client has the id.
	Exists(ctx context.Context, id string) (bool, error)
	// Put creates the client, or replaces the one that has the id.
	Put(ctx context.Context, c osb.DashboardClient) error
	// Delete deletes the client. It is not an error if it does not exist.
	Delete(ctx context.Context, id string) error
}

// ErrNoDashboards means that the platform may not create clients in the
// authorization server.
var ErrNoDashboards = errors.New("the platform may not create clients in the authorization server")

const (
	dashboardsOff = "Warning: This broker includes configuration for a dashboard client. Auto-creation of OAuth2 " +
		"clients has been disabled in this Cloud Foundry instance. " +
		"The broker catalog has been updated but its dashboard client configuration will be ignored."
	dashboardsOfSpace = "Warning: This broker includes configuration for a dashboard client and belongs to a space. " +
		"OAuth2 clients are created for brokers of the whole platform only: its dashboard client configuration will be " +
		"ignored."
)

// dashboardsOf returns the clients that a catalog requires.
func dashboardsOf(c *osb.Catalog) []osb.DashboardClient {
	var out []osb.DashboardClient
	for _, s := range c.Services {
		if s.DashboardClient != nil {
			out = append(out, *s.DashboardClient)
		}
	}
	return out
}

// fingerprint returns a hash by which a changed client is recognized. The column is
// sealed.
func fingerprint(c osb.DashboardClient) string {
	sum := sha256.Sum256([]byte(c.ID + "\x00" + c.Secret + "\x00" + c.RedirectURI))
	return hex.EncodeToString(sum[:])
}

// syncDashboards creates, replaces and deletes the clients of a broker according to
// its catalog, and returns those that it has then. Ids are claimed in the store
// before the authorization server is called, so that the owner of a client is known
// after a crash.
func (s *Services) syncDashboards(ctx context.Context, b *platform.ServiceBroker,
	c *osb.Catalog) (have map[string]string, warnings []string, err error) {
	wanted := dashboardsOf(c)
	switch {
	case len(wanted) == 0 && len(b.DashboardClients) == 0:
		return nil, nil, nil
	case b.SpaceGUID != "":
		return nil, []string{dashboardsOfSpace}, nil
	case s.Dashboards == nil:
		return b.DashboardClients, []string{dashboardsOff}, nil
	}
	have, err = s.putDashboards(ctx, b, wanted)
	var known *fault.Error
	var refused *osb.Error
	switch {
	case errors.Is(err, ErrNoDashboards):
		return b.DashboardClients, []string{dashboardsOff}, s.keepClaims(ctx, b.GUID, b.DashboardClients)
	case err != nil && ctx.Err() == nil && !errors.As(err, &known) && !errors.As(err, &refused):
		s.Log.ErrorContext(ctx, "the dashboard clients of a broker could not be updated", "broker", b.Name, "error", err)
		err = fault.Wrap(err, fault.Unavailable,
			"The dashboard clients of the service broker '%s' could not be updated in the authorization server. Update the "+
				"broker to try again.", b.Name)
	}
	return have, nil, err
}

func (s *Services) putDashboards(ctx context.Context, b *platform.ServiceBroker,
	wanted []osb.DashboardClient) (map[string]string, error) {
	claims := maps.Clone(b.DashboardClients)
	if claims == nil {
		claims = map[string]string{}
	}
	have := map[string]string{}
	for _, c := range wanted {
		if _, ours := claims[c.ID]; !ours {
			taken, err := s.Dashboards.Exists(ctx, c.ID)
			if err != nil {
				return nil, err
			}
			if taken {
				return nil, clientTaken(c.ID)
			}
			claims[c.ID] = ""
		}
		have[c.ID] = fingerprint(c)
	}
	if err := s.keepClaims(ctx, b.GUID, claims); err != nil {
		return nil, err
	}
	for _, c := range wanted {
		if claims[c.ID] == have[c.ID] {
			if there, err := s.Dashboards.Exists(ctx, c.ID); err != nil || there {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if err := s.Dashboards.Put(ctx, c); err != nil {
			return nil, err
		}
	}
	for id := range claims {
		if _, stays := have[id]; !stays {
			if err := s.Dashboards.Delete(ctx, id); err != nil {
				return nil, err
			}
		}
	}
	return have, nil
}

func clientTaken(id string) error {
	return &osb.Error{Outcome: osb.Refused, Title: "ServiceBrokerCatalogInvalid",
		Message: "Service broker catalog is invalid: \nService dashboard client id must be unique: '" + id +
			"' is already in use"}
}

// keepClaims stores the clients of a broker. Other brokers must not have them.
func (s *Services) keepClaims(ctx context.Context, guid string, claims map[string]string) error {
	return s.Store.Update(ctx, func(tx platform.Tx) error {
		all, _, err := tx.ServiceBrokers().List(platform.Query{})
		if err != nil {
			return err
		}
		var mine *platform.ServiceBroker
		for _, b := range all {
			if b.GUID == guid {
				mine = b
				continue
			}
			for id := range b.DashboardClients {
				if _, both := claims[id]; both {
					return clientTaken(id)
				}
			}
		}
		if mine == nil {
			return fault.New(fault.Unprocessable, "The service broker was removed.")
		}
		mine.DashboardClients = claims
		return tx.ServiceBrokers().Update(mine)
	})
}

// recordDashboards records audit events for clients that were created or deleted.
func (s *Services) recordDashboards(tx platform.Tx, b *platform.ServiceBroker, before, after map[string]string) error {
	by := actions.Actor{GUID: b.GUID, Type: "service_broker", Name: b.Name}
	record := func(what string, these, others map[string]string) error {
		for _, id := range slices.Sorted(maps.Keys(these)) {
			if _, both := others[id]; both {
				continue
			}
			target := actions.Target{GUID: id, Type: "service_dashboard_client", Name: id}
			if err := s.Platform.Record(tx, "audit.service_dashboard_client."+what, by, target, nil); err != nil {
				return err
			}
		}
		return nil
	}
	if err := record("create", after, before); err != nil {
		return err
	}
	return record("delete", before, after)
}

// removeBroker is the job that deletes a broker that has clients.
func (s *Services) removeBroker(ctx context.Context, job *platform.Job, w *work) error {
	var broker *platform.ServiceBroker
	err := s.Store.View(ctx, func(tx platform.Tx) (err error) {
		broker, err = tx.ServiceBrokers().Get(w.Broker)
		return ignoreGone(err)
	})
	if err == nil && broker != nil {
		for id := range broker.DashboardClients {
			if err == nil && s.Dashboards != nil {
				err = s.Dashboards.Delete(ctx, id)
			}
		}
		if errors.Is(err, ErrNoDashboards) {
			err = nil // then none was created
		}
	}
	if err != nil {
		return err // the job is retried
	}
	var refused *fault.Error
	err = s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
		finish(mine, platform.JobComplete)
		b, err := tx.ServiceBrokers().Get(w.Broker)
		if err != nil {
			return ignoreGone(err)
		}
		if err := s.recordDashboards(tx, b, b.DashboardClients, nil); err != nil {
			return err
		}
		return s.Platform.RemoveBroker(tx, w.Actor, b)
	})
	if errors.As(err, &refused) && refused.Code != fault.Internal {
		return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
			return s.notSynchronized(ctx, tx, mine,
				w, refused)
		})
	}
	return err
}
