package platformdb

import (
	"context"
	"embed"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
	"ingot/internal/platform"
)

//go:embed migrations/*.sql migrations/fresh.sqlite
var files embed.FS

// Migrations are the tables of this store.
var Migrations = db.EmbeddedMigrations("platform", files)

// SealedColumns are the columns to encrypt again when the server has a new key.
var SealedColumns = []db.SealedColumn{
	{Table: "platform_apps", Key: "guid", Column: "environment"},
	{Table: "platform_revisions", Key: "guid", Column: "environment"},
	{Table: "platform_revisions", Key: "guid", Column: "sidecar_options"},
	{Table: "platform_sidecars", Key: "guid", Column: "options"},
	{Table: "platform_packages", Key: "guid", Column: "password"},
	{Table: "platform_droplets", Key: "guid", Column: "image_password"},
	{Table: "platform_tasks", Key: "guid", Column: "command"},
	{Table: "platform_jobs", Key: "guid", Column: "payload"},
	{Table: "platform_service_brokers", Key: "guid", Column: "password"},
	{Table: "platform_service_brokers", Key: "guid", Column: "dashboard_clients"},
	{Table: "platform_service_instances", Key: "guid", Column: "credentials"},
	{Table: "platform_service_bindings", Key: "guid", Column: "credentials"},
	{Table: "platform_env_groups", Key: "name", Column: "variables"},
	{Table: "platform_secrets", Key: "name", Column: "value"},
	{Table: "platform_certificates", Key: "name", Column: "value"},
}

// Store implements platform.Store. It may be used by many goroutines.
type Store struct {
	db    *db.DB
	clock clock
	sink  platform.Sink
	watch func(platform.Tx) (platform.Tx, func() error)
}

var _ platform.Store = (*Store)(nil)

// New makes a store of a database that was migrated with Migrations.
func New(d *db.DB) *Store { return &Store{db: d} }

// Notify names the sink of what transactions announce; without one it is dropped.
// It has to be called before the first Update.
func (s *Store) Notify(sink platform.Sink) { s.sink = sink }

// Watch lets watch see all writes: it returns the transaction that the callers of
// Update get, and what is to be done before it commits. It has to be called before the
// first Update.
func (s *Store) Watch(watch func(platform.Tx) (platform.Tx, func() error)) { s.watch = watch }

// View implements platform.Store.
func (s *Store) View(ctx context.Context, f func(platform.Tx) error) error {
	return s.db.View(ctx, func(tx *db.Tx) error { return f(&transaction{Tx: tx, clock: &s.clock}) })
}

// Update implements platform.Store.
func (s *Store) Update(ctx context.Context, f func(platform.Tx) error) error {
	var changes platform.Changes
	wanted := false
	err := s.db.Update(ctx, func(tx *db.Tx) error {
		x := &transaction{Tx: tx, clock: &s.clock} // f may run again
		err := s.run(x, f)
		changes, wanted = x.changes, err == nil
		return err
	})
	if err != nil {
		changes.Lines = nil // the commit may have failed
	}
	if wanted && s.sink != nil && !changes.Empty() {
		// It is committed: a failure of the sink must not look like one of the write.
		background.Safely("announce changes", func() { s.sink.Changed(ctx, changes) })
	}
	return err
}

func (s *Store) run(x *transaction, f func(platform.Tx) error) error {
	if s.watch == nil {
		return f(x)
	}
	tx, finish := s.watch(x)
	if err := f(tx); err != nil {
		return err
	}
	return finish()
}

// transaction implements platform.Tx.
type transaction struct {
	*db.Tx
	clock   *clock
	changes platform.Changes
	ordered time.Time // the last that commitTime returned
}

// Announce implements platform.Tx.
func (x *transaction) Announce(c platform.Changes) { x.changes.Add(c) }

func (x *transaction) Organizations() platform.Repo[platform.Organization] {
	return repoOf(x, organizations)
}
func (x *transaction) Spaces() platform.Repo[platform.Space] { return repoOf(x, spaces) }
func (x *transaction) OrganizationQuotas() platform.Repo[platform.OrganizationQuota] {
	return repoOf(x, organizationQuotas)
}
func (x *transaction) SpaceQuotas() platform.Repo[platform.SpaceQuota] { return repoOf(x, spaceQuotas) }
func (x *transaction) SecurityGroups() platform.Repo[platform.SecurityGroup] {
	return repoOf(x, securityGroups)
}
func (x *transaction) NetworkPolicies() platform.Repo[platform.NetworkPolicy] {
	return repoOf(x, networkPolicies)
}
func (x *transaction) Users() platform.Repo[platform.User]     { return repoOf(x, users) }
func (x *transaction) Roles() platform.Repo[platform.Role]     { return repoOf(x, roles) }
func (x *transaction) Domains() platform.Repo[platform.Domain] { return repoOf(x, domains) }
func (x *transaction) Routes() platform.Repo[platform.Route]   { return repoOf(x, routes) }
func (x *transaction) Destinations() platform.Repo[platform.Destination] {
	return repoOf(x, destinations)
}
func (x *transaction) Apps() platform.Repo[platform.App]               { return repoOf(x, apps) }
func (x *transaction) Processes() platform.Repo[platform.Process]      { return repoOf(x, processes) }
func (x *transaction) Sidecars() platform.Repo[platform.Sidecar]       { return repoOf(x, sidecars) }
func (x *transaction) Packages() platform.Repo[platform.Package]       { return repoOf(x, packages) }
func (x *transaction) Builds() platform.Repo[platform.Build]           { return repoOf(x, builds) }
func (x *transaction) Droplets() platform.Repo[platform.Droplet]       { return repoOf(x, droplets) }
func (x *transaction) Deployments() platform.Repo[platform.Deployment] { return repoOf(x, deployments) }
func (x *transaction) Revisions() platform.Repo[platform.Revision]     { return repoOf(x, revisions) }
func (x *transaction) Tasks() platform.Repo[platform.Task]             { return repoOf(x, tasks) }
func (x *transaction) Instances() platform.Repo[platform.Instance]     { return repoOf(x, instances) }
func (x *transaction) InstanceRestarts() platform.Repo[platform.InstanceRestart] {
	return repoOf(x, instanceRestarts)
}
func (x *transaction) Buildpacks() platform.Repo[platform.Buildpack]   { return repoOf(x, buildpacks) }
func (x *transaction) Stacks() platform.Repo[platform.Stack]           { return repoOf(x, stacks) }
func (x *transaction) AuditEvents() platform.Repo[platform.AuditEvent] { return repoOf(x, auditEvents) }
func (x *transaction) Jobs() platform.Repo[platform.Job]               { return repoOf(x, jobs) }
func (x *transaction) ServiceBrokers() platform.Repo[platform.ServiceBroker] {
	return repoOf(x, serviceBrokers)
}
func (x *transaction) ServiceOfferings() platform.Repo[platform.ServiceOffering] {
	return repoOf(x, serviceOfferings)
}
func (x *transaction) ServicePlans() platform.Repo[platform.ServicePlan] {
	return repoOf(x, servicePlans)
}
func (x *transaction) ServiceInstances() platform.Repo[platform.ServiceInstance] {
	return repoOf(x, serviceInstances)
}
func (x *transaction) ServiceBindings() platform.Repo[platform.ServiceBinding] {
	return repoOf(x, serviceBindings)
}
func (x *transaction) CredentialRotations() platform.Repo[platform.CredentialRotation] {
	return repoOf(x, credentialRotations)
}

// clock gives every row of one process its own time, so that the order of
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
