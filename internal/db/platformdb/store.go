package platformdb

import (
	"context"
	"embed"
	"io/fs"
	"sync/atomic"
	"time"

	"ingot/internal/cf"
	"ingot/internal/db"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations are the tables of this store.
var Migrations = db.Migrations{Name: "platform", Files: mustSub(files, "migrations")}

// SealedColumns are those to seal anew when the server's key is exchanged.
var SealedColumns = []db.SealedColumn{
	{Table: "platform_apps", Key: "guid", Column: "environment"},
	{Table: "platform_packages", Key: "guid", Column: "password"},
	{Table: "platform_tasks", Key: "guid", Column: "command"},
	{Table: "platform_jobs", Key: "guid", Column: "payload"},
	{Table: "platform_service_brokers", Key: "guid", Column: "password"},
	{Table: "platform_service_instances", Key: "guid", Column: "credentials"},
	{Table: "platform_service_bindings", Key: "guid", Column: "credentials"},
	{Table: "platform_env_groups", Key: "name", Column: "variables"},
}

func mustSub(f fs.FS, dir string) fs.FS {
	sub, err := fs.Sub(f, dir)
	if err != nil {
		panic(err) // the folder is named wrongly
	}
	return sub
}

// Store implements cf.Store. It may be used by many goroutines.
type Store struct {
	db    *db.DB
	clock clock
}

var _ cf.Store = (*Store)(nil)

// New makes a store of a database that was migrated with Migrations.
func New(d *db.DB) *Store { return &Store{db: d} }

// View implements cf.Store.
func (s *Store) View(ctx context.Context, f func(cf.Tx) error) error {
	return s.db.View(ctx, func(tx *db.Tx) error { return f(&transaction{tx, &s.clock}) })
}

// Update implements cf.Store.
func (s *Store) Update(ctx context.Context, f func(cf.Tx) error) error {
	return s.db.Update(ctx, func(tx *db.Tx) error { return f(&transaction{tx, &s.clock}) })
}

// transaction implements cf.Tx.
type transaction struct {
	*db.Tx
	clock *clock
}

func (x *transaction) Organizations() cf.Repo[cf.Organization] { return repoOf(x, organizations) }
func (x *transaction) Spaces() cf.Repo[cf.Space]               { return repoOf(x, spaces) }
func (x *transaction) OrganizationQuotas() cf.Repo[cf.OrganizationQuota] {
	return repoOf(x, organizationQuotas)
}
func (x *transaction) SpaceQuotas() cf.Repo[cf.SpaceQuota]       { return repoOf(x, spaceQuotas) }
func (x *transaction) Users() cf.Repo[cf.User]                   { return repoOf(x, users) }
func (x *transaction) Roles() cf.Repo[cf.Role]                   { return repoOf(x, roles) }
func (x *transaction) Domains() cf.Repo[cf.Domain]               { return repoOf(x, domains) }
func (x *transaction) Routes() cf.Repo[cf.Route]                 { return repoOf(x, routes) }
func (x *transaction) Destinations() cf.Repo[cf.Destination]     { return repoOf(x, destinations) }
func (x *transaction) Apps() cf.Repo[cf.App]                     { return repoOf(x, apps) }
func (x *transaction) Processes() cf.Repo[cf.Process]            { return repoOf(x, processes) }
func (x *transaction) Sidecars() cf.Repo[cf.Sidecar]             { return repoOf(x, sidecars) }
func (x *transaction) Packages() cf.Repo[cf.Package]             { return repoOf(x, packages) }
func (x *transaction) Builds() cf.Repo[cf.Build]                 { return repoOf(x, builds) }
func (x *transaction) Droplets() cf.Repo[cf.Droplet]             { return repoOf(x, droplets) }
func (x *transaction) Deployments() cf.Repo[cf.Deployment]       { return repoOf(x, deployments) }
func (x *transaction) Tasks() cf.Repo[cf.Task]                   { return repoOf(x, tasks) }
func (x *transaction) Instances() cf.Repo[cf.Instance]           { return repoOf(x, instances) }
func (x *transaction) Buildpacks() cf.Repo[cf.Buildpack]         { return repoOf(x, buildpacks) }
func (x *transaction) Stacks() cf.Repo[cf.Stack]                 { return repoOf(x, stacks) }
func (x *transaction) AuditEvents() cf.Repo[cf.AuditEvent]       { return repoOf(x, auditEvents) }
func (x *transaction) Jobs() cf.Repo[cf.Job]                     { return repoOf(x, jobs) }
func (x *transaction) ServiceBrokers() cf.Repo[cf.ServiceBroker] { return repoOf(x, serviceBrokers) }
func (x *transaction) ServiceOfferings() cf.Repo[cf.ServiceOffering] {
	return repoOf(x, serviceOfferings)
}
func (x *transaction) ServicePlans() cf.Repo[cf.ServicePlan] { return repoOf(x, servicePlans) }
func (x *transaction) ServiceInstances() cf.Repo[cf.ServiceInstance] {
	return repoOf(x, serviceInstances)
}
func (x *transaction) ServiceBindings() cf.Repo[cf.ServiceBinding] { return repoOf(x, serviceBindings) }

// clock gives every row of one process a time of its own, so that the order of
// creation is that of insertion.
type clock struct{ last atomic.Int64 }

func (c *clock) now() time.Time {
	for {
		last, now := c.last.Load(), db.Nanos(time.Now())
		now = max(now, last+1)
		if c.last.CompareAndSwap(last, now) {
			return db.Time(now)
		}
	}
}
