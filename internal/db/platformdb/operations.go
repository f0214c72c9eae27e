package platformdb

import (
	"context"
	"time"

	"ingot/internal/cf"
	"ingot/internal/db"
)

var buildpacks = define(table[cf.Buildpack]{
	name: "platform_buildpacks",
	base: (*cf.Buildpack).Base, meta: (*cf.Buildpack).Meta,
	columns: []column[cf.Buildpack]{
		name("name", func(b *cf.Buildpack) *string { return &b.Name }),
		text("stack", func(b *cf.Buildpack) *string { return &b.Stack }),
		integer("position", func(b *cf.Buildpack) *int { return &b.Position }),
		flag("enabled", func(b *cf.Buildpack) *bool { return &b.Enabled }),
		flag("locked", func(b *cf.Buildpack) *bool { return &b.Locked }),
		text("state", func(b *cf.Buildpack) *string { return &b.State }),
		text("filename", func(b *cf.Buildpack) *string { return &b.Filename }),
		text("lifecycle", func(b *cf.Buildpack) *string { return &b.Lifecycle }),
		flag("bundled", func(b *cf.Buildpack) *bool { return &b.Bundled }),
		text("checksum", func(b *cf.Buildpack) *string { return &b.Checksum }),
	},
})

var stacks = define(table[cf.Stack]{
	name: "platform_stacks",
	base: (*cf.Stack).Base, meta: (*cf.Stack).Meta,
	columns: []column[cf.Stack]{
		name("name", func(s *cf.Stack) *string { return &s.Name }),
		text("description", func(s *cf.Stack) *string { return &s.Description }),
		flag("default", func(s *cf.Stack) *bool { return &s.Default }).named("is_default"),
	},
})

var auditEvents = define(table[cf.AuditEvent]{
	name: "platform_audit_events",
	base: (*cf.AuditEvent).Base,
	columns: []column[cf.AuditEvent]{
		text("type", func(e *cf.AuditEvent) *string { return &e.Type }),
		text("actor_guid", func(e *cf.AuditEvent) *string { return &e.ActorGUID }),
		text("actor_type", func(e *cf.AuditEvent) *string { return &e.ActorType }),
		text("actor_name", func(e *cf.AuditEvent) *string { return &e.ActorName }),
		text("target_guid", func(e *cf.AuditEvent) *string { return &e.TargetGUID }),
		text("target_type", func(e *cf.AuditEvent) *string { return &e.TargetType }),
		text("target_name", func(e *cf.AuditEvent) *string { return &e.TargetName }),
		object("data", func(e *cf.AuditEvent) *map[string]any { return &e.Data }),
		text("space_guid", func(e *cf.AuditEvent) *string { return &e.SpaceGUID }),
		text("organization_guid", func(e *cf.AuditEvent) *string { return &e.OrgGUID }),
	},
	// Events are for those who work in a space or audit it or its organization;
	// managers need to be auditors too. The organization of an event in a space
	// is asked as well: events outlive their spaces.
	visible: `t.space_guid IN (SELECT r.space_guid FROM platform_roles r
		WHERE r.user_guid = ? AND r.type IN ('space_developer', 'space_auditor', 'space_supporter'))
		OR t.organization_guid IN (SELECT r.organization_guid FROM platform_roles r
		WHERE r.user_guid = ? AND r.type = 'organization_auditor')`,
})

// Everybody may see a job: its guid is the secret.
var jobs = define(table[cf.Job]{
	name: "platform_jobs",
	base: (*cf.Job).Base,
	columns: []column[cf.Job]{
		text("operation", func(j *cf.Job) *string { return &j.Operation }),
		text("state", func(j *cf.Job) *cf.JobState { return &j.State }),
		object("errors", func(j *cf.Job) *[]cf.JobError { return &j.Errors }),
		object("warnings", func(j *cf.Job) *[]string { return &j.Warnings }),
		text("resource_type", func(j *cf.Job) *string { return &j.ResourceType }),
		text("resource_guid", func(j *cf.Job) *string { return &j.ResourceGUID }),
		sealed("platform_jobs", "payload", (*cf.Job).Base, func(j *cf.Job) *[]byte { return &j.Payload }),
		moment("lease", func(j *cf.Job) *time.Time { return &j.Lease }),
		text("worker", func(j *cf.Job) *string { return &j.Worker }),
		integer("attempt", func(j *cf.Job) *int { return &j.Attempt }),
		moment("due", func(j *cf.Job) *time.Time { return &j.Due }),
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
		var n int64
		err := s.db.Update(ctx, func(tx *db.Tx) (err error) {
			n, err = tx.Exec(purge, db.Nanos(before), purgeBatch)
			return err
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
}
