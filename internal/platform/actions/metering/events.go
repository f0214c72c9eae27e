package metering

import (
	"cmp"
	"time"

	"ingot/internal/platform"
)

// kept is how long usage events are kept, as Cloud Foundry keeps them.
const kept = 31 * 24 * time.Hour

// finish writes the usage events of the transaction.
func (m *metered) finish() error {
	if err := m.processEvents(); err != nil {
		return err
	}
	if err := m.buildEvents(); err != nil {
		return err
	}
	if err := m.taskEvents(); err != nil {
		return err
	}
	return m.serviceEvents()
}

// place returns what the events of an app have in common.
func (m *metered) place(appGUID string) (appPlace, error) {
	if p, gone := m.places[appGUID]; gone {
		return p, nil
	}
	return placeOf(m.Tx, appGUID)
}

// processEvents writes an event for each process that was started or stopped, or that
// was changed while it was started.
func (m *metered) processEvents() error {
	// Processes also start and stop with their app.
	for _, guid := range m.apps.order {
		all, _, err := m.Tx.Processes().List(platform.Where("app_guid", guid))
		if err != nil {
			return err
		}
		for _, p := range all {
			if _, known := m.processes.before[p.GUID]; !known {
				m.processes.add(p.GUID, p)
			}
		}
	}
	for _, guid := range m.processes.order {
		before := m.processes.before[guid]
		after, err := m.Tx.Processes().Get(guid)
		if err := ignoreMissing(err); err != nil {
			return err
		}
		one := cmp.Or(after, before)
		if one == nil {
			continue // created and deleted
		}
		place, err := m.place(one.AppGUID)
		if err != nil {
			return err
		}
		is, was := place.state, place.state
		if app, changed := m.apps.before[one.AppGUID]; changed {
			was = platform.AppStopped
			if app != nil {
				was = app.State
			}
		}
		if e := processEvent(place.event, before, after, was, is); e != nil {
			if err := m.Tx.AppUsageEvents().Insert(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// processEvent returns the event of a process whose app was and is in a state; nil if
// what it uses is the same.
func processEvent(e platform.AppUsageEvent, before, after *platform.Process, was,
	is platform.AppState) *platform.AppUsageEvent {
	wasStarted, isStarted := before != nil && was == platform.AppStarted, after != nil && is == platform.AppStarted
	same := before != nil && after != nil && before.Instances == after.Instances && before.MemoryMB == after.MemoryMB
	if wasStarted == isStarted && (!isStarted || same) {
		return nil
	}
	one := cmp.Or(after, before)
	e.State = platform.UsageStopped
	if isStarted {
		e.State = platform.UsageStarted
	}
	e.ProcessGUID, e.ProcessType, e.Instances, e.MemoryMB = one.GUID, one.Type, one.Instances, one.MemoryMB
	if before != nil {
		e.Previous, e.PreviousInstances, e.PreviousMemoryMB = string(was), before.Instances, before.MemoryMB
	}
	return &e
}

func (m *metered) buildEvents() error {
	for _, guid := range m.builds.order {
		before := m.builds.before[guid]
		after, err := m.Tx.Builds().Get(guid)
		if err := ignoreMissing(err); err != nil {
			return err
		}
		var states []platform.UsageState
		switch {
		case before == nil && after != nil:
			states = []platform.UsageState{platform.UsageStagingStarted}
		case before == nil || before.State != platform.BuildStaging || after != nil && after.State == platform.BuildStaging:
		case after != nil && after.State == platform.BuildStaged:
			states = []platform.UsageState{platform.UsageStagingStopped, platform.UsageBuildpackSet}
		default:
			states = []platform.UsageState{platform.UsageStagingStopped}
		}
		one := cmp.Or(after, before)
		for _, state := range states {
			place, err := m.place(one.AppGUID)
			if err != nil {
				return err
			}
			e := place.event
			e.State, e.Previous, e.BuildGUID = state, string(platform.BuildStaging), one.GUID
			e.Instances, e.PreviousInstances, e.MemoryMB, e.PreviousMemoryMB = 1, 1, one.MemoryMB, one.MemoryMB
			e.BuildpackGUID, e.BuildpackName = "", ""
			if err := setBuildpack(m.Tx, &e, one.DropletGUID, one.Lifecycle.Buildpacks); err != nil {
				return err
			}
			if err := m.Tx.AppUsageEvents().Insert(&e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *metered) taskEvents() error {
	for _, guid := range m.tasks.order {
		before := m.tasks.before[guid]
		after, err := m.Tx.Tasks().First(platform.WithoutSecrets(platform.Where("guid", guid)))
		if err := ignoreMissing(err); err != nil {
			return err
		}
		one, state, previous := after, platform.UsageTaskStarted, platform.TaskPending
		switch {
		case before == nil && after == nil, before != nil && (before.State.Over() || after != nil && !after.State.Over()):
			continue
		case before != nil:
			state, previous = platform.UsageTaskStopped, before.State
		}
		one = cmp.Or(one, before)
		place, err := m.place(one.AppGUID)
		if err != nil {
			return err
		}
		e := place.event
		e.State, e.Previous, e.TaskGUID, e.TaskName, e.BuildpackGUID, e.BuildpackName = state, string(previous), one.GUID,
			one.Name, "", ""
		e.Instances, e.PreviousInstances, e.MemoryMB, e.PreviousMemoryMB = 1, 1, one.MemoryMB, one.MemoryMB
		if err := m.Tx.AppUsageEvents().Insert(&e); err != nil {
			return err
		}
	}
	return nil
}

// serviceEvents writes an event for each service instance that exists now or did
// before, or whose name, plan or space changed.
func (m *metered) serviceEvents() error {
	for _, guid := range m.instances.order {
		before := m.instances.before[guid]
		after, err := m.Tx.ServiceInstances().First(platform.WithoutSecrets(platform.Where("guid", guid)))
		if err := ignoreMissing(err); err != nil {
			return err
		}
		existed, exists := before != nil && before.Last.Exists(), after != nil && after.Last.Exists()
		var state platform.UsageState
		switch {
		case exists && !existed:
			state = platform.UsageCreated
		case existed && after == nil:
			state = platform.UsageDeleted
		case existed && exists && (before.Name != after.Name || before.PlanGUID != after.PlanGUID ||
			before.SpaceGUID != after.SpaceGUID):
			state = platform.UsageUpdated
		default:
			continue
		}
		e, gone := m.offers[guid]
		if !gone {
			if e, err = serviceUsage(m.Tx, after); err != nil {
				return err
			}
		}
		e.State = state
		if err := m.Tx.ServiceUsageEvents().Insert(&e); err != nil {
			return err
		}
	}
	return nil
}

// serviceUsage describes a service instance for an event.
func serviceUsage(tx platform.Tx, i *platform.ServiceInstance) (platform.ServiceUsageEvent, error) {
	e := platform.ServiceUsageEvent{InstanceGUID: i.GUID, InstanceName: i.Name, InstanceType: platform.UsageUserProvided,
		SpaceGUID: i.SpaceGUID}
	space, err := tx.Spaces().Get(i.SpaceGUID)
	if err != nil {
		return e, ignoreMissing(err)
	}
	e.SpaceName, e.OrgGUID = space.Name, space.OrgGUID
	if i.Type != platform.ServiceManaged {
		return e, nil
	}
	e.InstanceType = platform.UsageManaged
	plan, err := tx.ServicePlans().Get(i.PlanGUID)
	if err != nil {
		return e, ignoreMissing(err)
	}
	e.PlanGUID, e.PlanName = plan.GUID, plan.Name
	offering, err := tx.ServiceOfferings().Get(plan.OfferingGUID)
	if err != nil {
		return e, ignoreMissing(err)
	}
	e.OfferingGUID, e.OfferingName = offering.GUID, offering.Name
	broker, err := tx.ServiceBrokers().First(platform.WithoutSecrets(platform.Where("guid", offering.BrokerGUID)))
	if err != nil {
		return e, ignoreMissing(err)
	}
	e.BrokerGUID, e.BrokerName = broker.GUID, broker.Name
	return e, nil
}

// ReseedApps deletes all app usage events and writes one for each process that
// is started.
func ReseedApps(tx platform.Tx) error {
	if _, err := tx.AppUsageEvents().DeleteAll(platform.Query{}); err != nil {
		return err
	}
	apps, _, err := tx.Apps().List(platform.WithoutSecrets(platform.Where("state", string(platform.AppStarted))))
	if err != nil {
		return err
	}
	for _, app := range apps {
		place, err := placeOf(tx, app.GUID)
		if err != nil {
			return err
		}
		processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
		if err != nil {
			return err
		}
		for _, process := range processes {
			e := processEvent(place.event, process, process, platform.AppStopped, platform.AppStarted)
			e.Previous = string(platform.AppStarted) // nothing changed
			if err := tx.AppUsageEvents().Insert(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReseedServices deletes all service usage events and writes one for each service
// instance.
func ReseedServices(tx platform.Tx) error {
	if _, err := tx.ServiceUsageEvents().DeleteAll(platform.Query{}); err != nil {
		return err
	}
	all, _, err := tx.ServiceInstances().List(platform.WithoutSecrets(platform.Query{}))
	if err != nil {
		return err
	}
	for _, i := range all {
		if !i.Last.Exists() {
			continue
		}
		e, err := serviceUsage(tx, i)
		if err != nil {
			return err
		}
		e.State = platform.UsageCreated
		if err := tx.ServiceUsageEvents().Insert(&e); err != nil {
			return err
		}
	}
	return nil
}

// Ensure writes the first usage events of a platform that had none before: of
// what exists already.
func Ensure(tx platform.Tx) error {
	for _, kind := range []struct {
		count func(platform.Query) (int, error)
		seed  func(platform.Tx) error
	}{{tx.AppUsageEvents().Count, ReseedApps}, {tx.ServiceUsageEvents().Count, ReseedServices}} {
		n, err := kind.count(platform.Query{})
		if err == nil && n == 0 {
			err = kind.seed(tx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Purge deletes old usage events, but not the last one of what is still in use.
func Purge(tx platform.Tx, now time.Time) error {
	old := platform.Query{Where: []platform.Cond{{Field: "created_at", Op: platform.OpLess,
		Values: []any{now.Add(-kept)}}}}
	for _, kind := range []struct {
		delete func(platform.Query) (int, error)
		using  []any // the states of what is in use
	}{
		{tx.AppUsageEvents().DeleteAll, []any{platform.UsageStarted, platform.UsageTaskStarted}},
		{tx.ServiceUsageEvents().DeleteAll, []any{platform.UsageCreated, platform.UsageUpdated}},
	} {
		if _, err := kind.delete(old.And(platform.In("superseded", true))); err != nil {
			return err
		}
		if _, err := kind.delete(old.And(platform.Cond{Field: "state", Op: platform.OpNotIn,
			Values: kind.using})); err != nil {
			return err
		}
	}
	return nil
}
