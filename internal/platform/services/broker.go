package services

import (
	"context"
	"errors"
	"slices"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/services/osb"
)

// BrokerChange is a change of a broker. Fields that are nil stay unchanged.
type BrokerChange struct {
	Name     *string `json:"name,omitempty"`
	URL      *string `json:"url,omitempty"`
	Username *string `json:"username,omitempty"`
	Password *string `json:"password,omitempty"`
	// Public makes new plans of the broker public.
	Public bool `json:"public,omitempty"`
}

func (c *BrokerChange) apply(b *platform.ServiceBroker) {
	for _, set := range []struct {
		from *string
		to   *string
	}{{c.Name, &b.Name}, {c.URL, &b.URL}, {c.Username, &b.Username}, {c.Password, &b.Password}} {
		if set.from != nil {
			*set.to = *set.from
		}
	}
}

func checkBroker(tx platform.Tx, b *platform.ServiceBroker) error {
	if err := platform.CheckServiceBroker(b); err != nil {
		return err
	}
	taken, err := tx.ServiceBrokers().Count(platform.Where("name", b.Name).
		And(platform.Cond{Field: "guid", Op: platform.OpNotIn, Values: []any{b.GUID}}))
	if err == nil && taken > 0 {
		err = fault.New(fault.Unprocessable, "Name must be unique")
	}
	return err
}

func brokerTarget(b *platform.ServiceBroker) actions.Target {
	return actions.Target{GUID: b.GUID, Type: "service_broker", Name: b.Name, SpaceGUID: b.SpaceGUID}
}

// CreateBroker stores a broker and the job that reads its catalog.
func (s *Services) CreateBroker(tx platform.Tx, by actions.Actor, b *platform.ServiceBroker) (*platform.Job, error) {
	if err := checkBroker(tx, b); err != nil {
		return nil, err
	}
	b.State = platform.BrokerSynchronizing
	if err := tx.ServiceBrokers().Insert(b); err != nil {
		return nil, err
	}
	if err := s.Platform.Record(tx, "audit.service_broker.create", by, brokerTarget(b),
		map[string]any{"request": map[string]any{"name": b.Name, "broker_url": b.URL}}); err != nil {
		return nil, err
	}
	return s.insertJob(tx, "service_broker.catalog.synchronize", "service_broker", b.GUID,
		&work{Actor: by, Broker: b.GUID})
}

// UpdateBroker returns the job that reads the broker's catalog with the new values
// and, if that succeeds, stores them.
func (s *Services) UpdateBroker(tx platform.Tx, by actions.Actor, b *platform.ServiceBroker,
	c BrokerChange) (*platform.Job, error) {
	if b.State == platform.BrokerSynchronizing {
		return nil, fault.New(fault.Unprocessable, "Cannot update a broker when other operation is already in progress")
	}
	wanted := *b
	c.apply(&wanted)
	if err := checkBroker(tx, &wanted); err != nil {
		return nil, err
	}
	b.State = platform.BrokerSynchronizing
	if err := tx.ServiceBrokers().Update(b); err != nil {
		return nil, err
	}
	return s.insertJob(tx, "service_broker.update", "service_broker", b.GUID, &work{Actor: by, Broker: b.GUID,
		BrokerChange: &c})
}

// deleteBroker is the operation of the job that deletes a broker.
const deleteBroker = "service_broker.delete"

// DeleteBroker deletes a broker that has no service instances: immediately if it
// has no OAuth clients, otherwise through the job that it returns.
func (s *Services) DeleteBroker(tx platform.Tx, by actions.Actor, b *platform.ServiceBroker) (*platform.Job, error) {
	if len(b.DashboardClients) == 0 {
		return nil, s.Platform.RemoveBroker(tx, by, b)
	}
	if err := s.Platform.BrokerUnused(tx, b); err != nil {
		return nil, err
	}
	b.State = platform.BrokerDeleting
	if err := tx.ServiceBrokers().Update(b); err != nil {
		return nil, err
	}
	return s.insertJob(tx, deleteBroker, "service_broker", b.GUID, &work{Actor: by, Broker: b.GUID})
}

// synchronize reads a broker's catalog and stores what it offers.
func (s *Services) synchronize(ctx context.Context, job *platform.Job, w *work) error {
	broker, err := db.Within(ctx, s.Store.View, func(tx platform.Tx) (*platform.ServiceBroker, error) {
		return tx.ServiceBrokers().Get(w.Broker)
	})
	if fault.Is(err, fault.NotFound) {
		return s.commit(ctx, job, func(_ platform.Tx, mine *platform.Job) error {
			finish(mine, platform.JobFailed, s.jobError(ctx, fault.New(fault.Unprocessable, "The service broker was removed.")))
			return nil
		})
	}
	if err != nil {
		return err
	}
	if w.BrokerChange != nil {
		w.BrokerChange.apply(broker)
	}
	catalog, err := s.readCatalog(ctx, brokerOf(broker))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var clients map[string]string
	var warnings []string
	if err == nil {
		clients, warnings, err = s.syncDashboards(ctx, broker, catalog)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err != nil {
		return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
			return s.notSynchronized(ctx, tx, mine, w,
				err)
		})
	}
	before := broker.DashboardClients
	var refused *fault.Error
	err = s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
		finish(mine, platform.JobComplete)
		b, err := tx.ServiceBrokers().Get(w.Broker)
		if err != nil {
			return err
		}
		public := false
		if w.BrokerChange != nil {
			w.BrokerChange.apply(b)
			public = w.BrokerChange.Public
		}
		if err := checkBroker(tx, b); err != nil {
			return err
		}
		b.State, b.DashboardClients = platform.BrokerAvailable, clients
		if err := tx.ServiceBrokers().Update(b); err != nil {
			return err
		}
		if err := s.recordDashboards(tx, b, before, clients); err != nil {
			return err
		}
		more, err := applyCatalog(tx, b, catalog, public)
		mine.Warnings = append(slices.Clone(warnings), more...)
		if err != nil || w.BrokerChange == nil {
			return err
		}
		return s.Platform.Record(tx, "audit.service_broker.update", w.Actor, brokerTarget(b), nil)
	})
	if errors.As(err, &refused) && refused.Code != fault.Internal {
		return s.commit(ctx, job, func(tx platform.Tx, mine *platform.Job) error {
			return s.notSynchronized(ctx, tx, mine,
				w, refused)
		})
	}
	return err
}

// notSynchronized finishes the job of a broker whose catalog could not be used. A
// broker that was available before is not changed.
func (s *Services) notSynchronized(ctx context.Context, tx platform.Tx, mine *platform.Job, w *work, why error) error {
	finish(mine, platform.JobFailed, s.jobError(ctx, why))
	b, err := tx.ServiceBrokers().Get(w.Broker)
	if err != nil {
		return ignoreGone(err)
	}
	offers, err := tx.ServiceOfferings().Count(platform.Where("broker_guid", b.GUID))
	if err != nil {
		return err
	}
	b.State = platform.BrokerFailed
	if offers > 0 {
		b.State = platform.BrokerAvailable
	}
	return tx.ServiceBrokers().Update(b)
}

func (s *Services) readCatalog(ctx context.Context, b osb.Broker) (*osb.Catalog, error) {
	catalog, err := s.client.Catalog(ctx, b)
	if err != nil {
		return nil, err
	}
	if problems := schemaProblems(catalog); len(problems) > 0 {
		return nil, &osb.Error{Outcome: osb.Refused, Title: "ServiceBrokerCatalogInvalid",
			Message: "Service broker catalog is invalid: \n" + strings.Join(problems, "\n")}
	}
	return catalog, nil
}

// Register creates or updates the broker of this name and its catalog. Its plans
// are public unless an administrator changes that. It may be called at every
// start.
func (s *Services) Register(ctx context.Context, name, address, username, password string) error {
	broker := osb.Broker{Name: name, URL: address, Username: username, Password: password}
	catalog, err := s.readCatalog(ctx, broker)
	if err != nil {
		return err
	}
	return s.Store.Update(ctx, func(tx platform.Tx) error {
		b, err := tx.ServiceBrokers().First(platform.Where("name", name))
		found := err == nil
		if fault.Is(err, fault.NotFound) {
			b, err = &platform.ServiceBroker{Name: name}, nil
		}
		if err != nil {
			return err
		}
		if b.SpaceGUID != "" {
			return fault.New(fault.Conflict, "the broker '%s' belongs to a space; rename or delete it", name)
		}
		same := found && b.URL == address && b.Username == username && b.Password == password &&
			b.State == platform.BrokerAvailable
		b.URL, b.Username, b.Password, b.State = address, username, password, platform.BrokerAvailable
		switch {
		case !found:
			err = tx.ServiceBrokers().Insert(b)
		case !same:
			err = tx.ServiceBrokers().Update(b)
		}
		if err != nil {
			return err
		}
		_, err = applyCatalog(tx, b, catalog, true)
		return err
	})
}
