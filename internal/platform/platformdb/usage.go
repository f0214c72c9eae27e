package platformdb

import (
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// Only those who may read everything see usage events; that is for the caller to
// decide.
var appUsageEvents = define(table[platform.AppUsageEvent]{
	name: "platform_app_usage_events",
	base: (*platform.AppUsageEvent).Base,
	columns: []column[platform.AppUsageEvent]{
		text("state", func(e *platform.AppUsageEvent) *platform.UsageState { return &e.State }),
		text("previous", func(e *platform.AppUsageEvent) *string { return &e.Previous }),
		text("app_guid", func(e *platform.AppUsageEvent) *string { return &e.AppGUID }),
		text("app_name", func(e *platform.AppUsageEvent) *string { return &e.AppName }),
		text("process_guid", func(e *platform.AppUsageEvent) *string { return &e.ProcessGUID }),
		text("process_type", func(e *platform.AppUsageEvent) *string { return &e.ProcessType }),
		text("task_guid", func(e *platform.AppUsageEvent) *string { return &e.TaskGUID }),
		text("task_name", func(e *platform.AppUsageEvent) *string { return &e.TaskName }),
		text("build_guid", func(e *platform.AppUsageEvent) *string { return &e.BuildGUID }),
		text("space_guid", func(e *platform.AppUsageEvent) *string { return &e.SpaceGUID }),
		text("space_name", func(e *platform.AppUsageEvent) *string { return &e.SpaceName }),
		text("organization_guid", func(e *platform.AppUsageEvent) *string { return &e.OrgGUID }),
		text("buildpack_guid", func(e *platform.AppUsageEvent) *string { return &e.BuildpackGUID }),
		text("buildpack_name", func(e *platform.AppUsageEvent) *string { return &e.BuildpackName }),
		integer("memory_mb", func(e *platform.AppUsageEvent) *int { return &e.MemoryMB }),
		integer("previous_memory_mb", func(e *platform.AppUsageEvent) *int { return &e.PreviousMemoryMB }),
		integer("instances", func(e *platform.AppUsageEvent) *int { return &e.Instances }),
		integer("previous_instances", func(e *platform.AppUsageEvent) *int { return &e.PreviousInstances }),
	},
	virtual: map[string]field{
		// There is a newer event of the same process, task or build.
		"superseded": {kind: boolean, sql: `EXISTS (SELECT 1 FROM platform_app_usage_events n
			WHERE n.process_guid = t.process_guid AND n.task_guid = t.task_guid AND n.build_guid = t.build_guid AND n.created_at > t.created_at)`},
	},
})

var serviceUsageEvents = define(table[platform.ServiceUsageEvent]{
	name: "platform_service_usage_events",
	base: (*platform.ServiceUsageEvent).Base,
	columns: []column[platform.ServiceUsageEvent]{
		text("state", func(e *platform.ServiceUsageEvent) *platform.UsageState { return &e.State }),
		text("space_guid", func(e *platform.ServiceUsageEvent) *string { return &e.SpaceGUID }),
		text("space_name", func(e *platform.ServiceUsageEvent) *string { return &e.SpaceName }),
		text("organization_guid", func(e *platform.ServiceUsageEvent) *string { return &e.OrgGUID }),
		text("instance_guid", func(e *platform.ServiceUsageEvent) *string { return &e.InstanceGUID }),
		text("instance_name", func(e *platform.ServiceUsageEvent) *string { return &e.InstanceName }),
		text("instance_type", func(e *platform.ServiceUsageEvent) *string { return &e.InstanceType }),
		text("plan_guid", func(e *platform.ServiceUsageEvent) *string { return &e.PlanGUID }),
		text("plan_name", func(e *platform.ServiceUsageEvent) *string { return &e.PlanName }),
		text("offering_guid", func(e *platform.ServiceUsageEvent) *string { return &e.OfferingGUID }),
		text("offering_name", func(e *platform.ServiceUsageEvent) *string { return &e.OfferingName }),
		text("broker_guid", func(e *platform.ServiceUsageEvent) *string { return &e.BrokerGUID }),
		text("broker_name", func(e *platform.ServiceUsageEvent) *string { return &e.BrokerName }),
	},
	virtual: map[string]field{
		"superseded": {kind: boolean, sql: `EXISTS (SELECT 1 FROM platform_service_usage_events n
			WHERE n.instance_guid = t.instance_guid AND n.created_at > t.created_at)`},
	},
})

func (x *transaction) AppUsageEvents() platform.Repo[platform.AppUsageEvent] {
	return ordered[platform.AppUsageEvent]{repoOf(x, appUsageEvents), x}
}

func (x *transaction) ServiceUsageEvents() platform.Repo[platform.ServiceUsageEvent] {
	return ordered[platform.ServiceUsageEvent]{repoOf(x, serviceUsageEvents), x}
}

// ordered is a repo whose rows are created in the order in which their transactions
// commit, also by several servers: who has read all rows up to one finds the others
// after it. Rows should be inserted last in their transaction, because others wait.
type ordered[T any] struct {
	repo[T]
	x *transaction
}

func (r ordered[T]) Insert(row *T) error {
	base := r.t.base(row)
	if base.Created.IsZero() {
		now, err := r.x.commitTime()
		if err != nil {
			return err
		}
		base.Created, base.Updated = now, now
	}
	return r.repo.Insert(row)
}

// usageLock is the number of the lock that orders usage events.
const usageLock = 0x1690075a6e

// commitTime returns a time that is later than that of all transactions that called it
// and have committed, and earlier than that of those to come. Transactions of SQLite
// follow each other anyway.
func (x *transaction) commitTime() (time.Time, error) {
	if x.Dialect() != db.Postgres {
		return x.clock.now(), nil
	}
	if x.ordered.IsZero() {
		var micros int64
		if _, err := x.Exec("SELECT pg_advisory_xact_lock(?)", int64(usageLock)); err != nil {
			return time.Time{}, err
		}
		err := x.QueryRow("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)").Scan(&micros)
		if err != nil {
			return time.Time{}, err
		}
		x.ordered = db.Time(micros * 1000)
	} else {
		x.ordered = x.ordered.Add(1)
	}
	return x.ordered, nil
}
