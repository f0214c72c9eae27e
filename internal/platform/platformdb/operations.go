package platformdb

import (
	"context"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

var buildpacks = define(table[platform.Buildpack]{
	name: "platform_buildpacks",
	base: (*platform.Buildpack).Base, meta: (*platform.Buildpack).Meta,
	columns: []column[platform.Buildpack]{
		name("name", func(b *platform.Buildpack) *string { return &b.Name }),
		text("stack", func(b *platform.Buildpack) *string { return &b.Stack }),
		integer("position", func(b *platform.Buildpack) *int { return &b.Position }),
		flag("enabled", func(b *platform.Buildpack) *bool { return &b.Enabled }),
		flag("locked", func(b *platform.Buildpack) *bool { return &b.Locked }),
		text("state", func(b *platform.Buildpack) *platform.BuildpackState { return &b.State }),
		text("filename", func(b *platform.Buildpack) *string { return &b.Filename }),
		text("lifecycle", func(b *platform.Buildpack) *string { return &b.Lifecycle }),
		flag("bundled", func(b *platform.Buildpack) *bool { return &b.Bundled }),
		text("checksum", func(b *platform.Buildpack) *string { return &b.Checksum }),
	},
})

var stacks = define(table[platform.Stack]{
	name: "platform_stacks",
	base: (*platform.Stack).Base, meta: (*platform.Stack).Meta,
	columns: []column[platform.Stack]{
		name("name", func(s *platform.Stack) *string { return &s.Name }),
		text("description", func(s *platform.Stack) *string { return &s.Description }),
		flag("default", func(s *platform.Stack) *bool { return &s.Default }).named("is_default"),
		text("state", func(s *platform.Stack) *platform.StackState { return &s.State }),
		text("state_reason", func(s *platform.Stack) *string { return &s.StateReason }),
	},
})

var auditEvents = define(table[platform.AuditEvent]{
	name: "platform_audit_events",
	base: (*platform.AuditEvent).Base,
	columns: []column[platform.AuditEvent]{
		text("type", func(e *platform.AuditEvent) *string { return &e.Type }),
		text("actor_guid", func(e *platform.AuditEvent) *string { return &e.ActorGUID }),
		text("actor_type", func(e *platform.AuditEvent) *string { return &e.ActorType }),
		text("actor_name", func(e *platform.AuditEvent) *string { return &e.ActorName }),
		text("target_guid", func(e *platform.AuditEvent) *string { return &e.TargetGUID }),
		text("target_type", func(e *platform.AuditEvent) *string { return &e.TargetType }),
		text("target_name", func(e *platform.AuditEvent) *string { return &e.TargetName }),
		object("data", func(e *platform.AuditEvent) *map[string]any { return &e.Data }),
		text("space_guid", func(e *platform.AuditEvent) *string { return &e.SpaceGUID }),
		text("organization_guid", func(e *platform.AuditEvent) *string { return &e.OrgGUID }),
		flag("alerted", func(e *platform.AuditEvent) *bool { return &e.Alerted }),
	},
	// Events are for those who work in a space or audit it or its organization;
	// managers need to be auditors too. The organization of an event in a space
	// is asked as well: events outlive their spaces.
	seenBy: []lookup{{"space_guid", spacesFor(platform.ReadEvents)},
		{"organization_guid", organizationsFor(platform.ReadEvents)}},
})

// Everybody may see a job: its guid is the secret.
var jobs = define(table[platform.Job]{
	name: "platform_jobs",
	base: (*platform.Job).Base,
	columns: []column[platform.Job]{
		text("operation", func(j *platform.Job) *string { return &j.Operation }),
		text("state", func(j *platform.Job) *platform.JobState { return &j.State }),
		object("errors", func(j *platform.Job) *[]platform.JobError { return &j.Errors }),
		object("warnings", func(j *platform.Job) *[]string { return &j.Warnings }),
		text("resource_type", func(j *platform.Job) *string { return &j.ResourceType }),
		text("resource_guid", func(j *platform.Job) *string { return &j.ResourceGUID }),
		sealed("platform_jobs", "payload", (*platform.Job).Base, func(j *platform.Job) *[]byte { return &j.Payload }),
		moment("lease", func(j *platform.Job) *time.Time { return &j.Lease }),
		text("worker", func(j *platform.Job) *string { return &j.Worker }),
		integer("attempt", func(j *platform.Job) *int { return &j.Attempt }),
		moment("due", func(j *platform.Job) *time.Time { return &j.Due }),
	},
})

// purgeBatch bounds the jobs of one transaction, so that others need not wait
// for it.
const purgeBatch = 500

// PurgeJobs removes finished jobs that have not changed since before. When it
// is interrupted, the batches that were done stay done.
func (s *Store) PurgeJobs(ctx context.Context, before time.Time) error {
	const purge = `DELETE FROM platform_jobs WHERE guid IN (SELECT guid FROM platform_jobs
		WHERE state IN ('COMPLETE', 'FAILED') AND updated_at < ? ORDER BY updated_at LIMIT ?)`
	for {
		n, err := db.Within(ctx, s.db.Update, func(tx *db.Tx) (int64, error) {
			return tx.Exec(purge, db.Nanos(before), purgeBatch)
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
}
