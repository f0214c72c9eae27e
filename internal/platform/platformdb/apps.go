package platformdb

import (
	"time"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

var apps = define(table[platform.App]{
	name: "platform_apps",
	base: (*platform.App).Base, meta: (*platform.App).Meta,
	columns: []column[platform.App]{
		name("name", func(a *platform.App) *string { return &a.Name }),
		text("space_guid", func(a *platform.App) *string { return &a.SpaceGUID }),
		text("state", func(a *platform.App) *platform.AppState { return &a.State }),
		text("lifecycle_type", func(a *platform.App) *string { return &a.Lifecycle.Type }),
		text("stack", func(a *platform.App) *string { return &a.Lifecycle.Stack }),
		object("buildpacks", func(a *platform.App) *[]string { return &a.Lifecycle.Buildpacks }),
		text("droplet_guid", func(a *platform.App) *string { return &a.DropletGUID }),
		sealed("platform_apps", "environment", (*platform.App).Base,
			func(a *platform.App) *map[string]string { return &a.Env }),
		object("features", func(a *platform.App) *map[string]bool { return &a.Features }),
	},
	virtual: map[string]field{"organization_guid": orgOfSpace},
	derived: []derived[platform.App]{{column: "space_guid", follow: moved,
		text: func(_ *db.Tx, a *platform.App) (any, error) { return a.SpaceGUID, nil }}},
	seenBy: inSpaces,
	with:   map[string]string{"platform_series": "app_guid", "platform_git_sources": "app_guid"},
})

var processes = define(table[platform.Process]{
	name: "platform_processes",
	base: (*platform.Process).Base, meta: (*platform.Process).Meta,
	columns: []column[platform.Process]{
		text("app_guid", func(p *platform.Process) *string { return &p.AppGUID }),
		text("type", func(p *platform.Process) *string { return &p.Type }),
		text("command", func(p *platform.Process) *string { return &p.Command }),
		text("user", func(p *platform.Process) *string { return &p.User }).named("run_as"),
		integer("instances", func(p *platform.Process) *int { return &p.Instances }),
		integer("memory_mb", func(p *platform.Process) *int { return &p.MemoryMB }),
		integer("disk_mb", func(p *platform.Process) *int { return &p.DiskMB }),
		integer("log_rate", func(p *platform.Process) *int64 { return &p.LogRate }),
		object("health", func(p *platform.Process) *platform.HealthCheck { return &p.Health }),
		object("readiness", func(p *platform.Process) *platform.HealthCheck { return &p.Readiness }),
		text("on_credentials", func(p *platform.Process) *string { return &p.OnCredentials }),
		object("min_healthy_time", func(p *platform.Process) **int { return &p.MinHealthy }),
		text("version", func(p *platform.Process) *string { return &p.Version }),
		text("droplet_guid", func(p *platform.Process) *string { return &p.DropletGUID }),
		text("revision_guid", func(p *platform.Process) *string { return &p.RevisionGUID }),
	},
	ofApp: func(p *platform.Process) string { return p.AppGUID },
})

var sidecars = define(table[platform.Sidecar]{
	name: "platform_sidecars",
	base: (*platform.Sidecar).Base,
	columns: []column[platform.Sidecar]{
		text("app_guid", func(s *platform.Sidecar) *string { return &s.AppGUID }),
		text("name", func(s *platform.Sidecar) *string { return &s.Name }),
		text("command", func(s *platform.Sidecar) *string { return &s.Command }),
		object("process_types", func(s *platform.Sidecar) *[]string { return &s.ProcessTypes }),
		integer("memory_mb", func(s *platform.Sidecar) *int { return &s.MemoryMB }),
		text("origin", func(s *platform.Sidecar) *string { return &s.Origin }),
		sealed("platform_sidecars", "options", (*platform.Sidecar).Base,
			func(s *platform.Sidecar) *platform.SidecarOptions { return &s.Options }),
	},
	ofApp: func(s *platform.Sidecar) string { return s.AppGUID },
})

var deployments = define(table[platform.Deployment]{
	name: "platform_deployments",
	base: (*platform.Deployment).Base, meta: (*platform.Deployment).Meta,
	columns: []column[platform.Deployment]{
		text("app_guid", func(d *platform.Deployment) *string { return &d.AppGUID }),
		text("strategy", func(d *platform.Deployment) *platform.DeploymentStrategy { return &d.Strategy }),
		text("status", func(d *platform.Deployment) *platform.DeploymentStatus { return &d.Status }),
		text("reason", func(d *platform.Deployment) *platform.DeploymentReason { return &d.Reason }),
		moment("last_change", func(d *platform.Deployment) *time.Time { return &d.LastChange }),
		text("droplet_guid", func(d *platform.Deployment) *string { return &d.DropletGUID }),
		text("previous_droplet_guid", func(d *platform.Deployment) *string { return &d.PreviousDropletGUID }),
		integer("max_in_flight", func(d *platform.Deployment) *int { return &d.MaxInFlight }),
		object("options", func(d *platform.Deployment) *platform.DeploymentOptions { return &d.Options }),
		integer("step", func(d *platform.Deployment) *int { return &d.Step }),
		text("web_guid", func(d *platform.Deployment) *string { return &d.WebGUID }),
		text("prior_guid", func(d *platform.Deployment) *string { return &d.PriorGUID }),
		integer("instances", func(d *platform.Deployment) *int { return &d.Instances }),
		integer("original_instances", func(d *platform.Deployment) *int { return &d.Original }),
		moment("last_healthy", func(d *platform.Deployment) *time.Time { return &d.LastHealthy }),
		text("error", func(d *platform.Deployment) *string { return &d.Error }),
		text("revision_guid", func(d *platform.Deployment) *string { return &d.RevisionGUID }),
		integer("revision_version", func(d *platform.Deployment) *int { return &d.RevisionVersion }),
		integer("rolled_back_to", func(d *platform.Deployment) *int { return &d.RolledBackTo }),
	},
	ofApp: func(d *platform.Deployment) string { return d.AppGUID },
})

var revisions = define(table[platform.Revision]{
	name: "platform_revisions",
	base: (*platform.Revision).Base, meta: (*platform.Revision).Meta,
	columns: []column[platform.Revision]{
		text("app_guid", func(r *platform.Revision) *string { return &r.AppGUID }),
		integer("version", func(r *platform.Revision) *int { return &r.Version }),
		text("droplet_guid", func(r *platform.Revision) *string { return &r.DropletGUID }),
		text("description", func(r *platform.Revision) *string { return &r.Description }),
		sealed("platform_revisions", "environment", (*platform.Revision).Base,
			func(r *platform.Revision) *map[string]string { return &r.Env }),
		object("processes", func(r *platform.Revision) *map[string]platform.ProcessSettings { return &r.Processes }),
		object("sidecars", func(r *platform.Revision) *[]platform.RevisionSidecar { return &r.Sidecars }),
		sealed("platform_revisions", "sidecar_options", (*platform.Revision).Base,
			func(r *platform.Revision) *map[string]platform.SidecarOptions { return &r.Options }),
	},
	virtual: map[string]field{
		"deployable": {kind: boolean,
			sql: "EXISTS (SELECT 1 FROM platform_droplets d WHERE d.guid = t.droplet_guid AND d.state = 'STAGED')"},
		// A process of the app, which is started, runs it.
		"deployed": {kind: boolean, sql: `EXISTS (SELECT 1 FROM platform_processes p JOIN platform_apps a ON a.guid = p.app_guid
			WHERE p.app_guid = t.app_guid AND p.revision_guid = t.guid AND a.state = 'STARTED')`},
	},
	ofApp: func(r *platform.Revision) string { return r.AppGUID },
})

var tasks = define(table[platform.Task]{
	name: "platform_tasks",
	base: (*platform.Task).Base, meta: (*platform.Task).Meta,
	columns: []column[platform.Task]{
		text("app_guid", func(t *platform.Task) *string { return &t.AppGUID }),
		integer("sequence_id", func(t *platform.Task) *int { return &t.Sequence }),
		text("name", func(t *platform.Task) *string { return &t.Name }),
		sealed("platform_tasks", "command", (*platform.Task).Base, func(t *platform.Task) *string { return &t.Command }),
		text("droplet_guid", func(t *platform.Task) *string { return &t.DropletGUID }),
		text("state", func(t *platform.Task) *platform.TaskState { return &t.State }),
		text("reason", func(t *platform.Task) *string { return &t.Reason }),
		integer("memory_mb", func(t *platform.Task) *int { return &t.MemoryMB }),
		integer("disk_mb", func(t *platform.Task) *int { return &t.DiskMB }),
		integer("log_rate", func(t *platform.Task) *int64 { return &t.LogRate }),
	},
	virtual: map[string]field{
		// There is a newer one of the same app.
		"superseded": {kind: boolean,
			sql: "EXISTS (SELECT 1 FROM platform_tasks n WHERE n.app_guid = t.app_guid AND n.sequence_id > t.sequence_id)"},
	},
	ofApp: func(t *platform.Task) string { return t.AppGUID },
})

var instances = define(table[platform.Instance]{
	name: "platform_instances",
	base: (*platform.Instance).Base,
	columns: []column[platform.Instance]{
		text("app_guid", func(i *platform.Instance) *string { return &i.AppGUID }),
		text("process_guid", func(i *platform.Instance) *string { return &i.ProcessGUID }),
		integer("index", func(i *platform.Instance) *int { return &i.Index }).named("instance_index"),
		text("version", func(i *platform.Instance) *string { return &i.Version }),
		text("state", func(i *platform.Instance) *platform.InstanceState { return &i.State }),
		flag("ready", func(i *platform.Instance) *bool { return &i.Ready }),
		moment("since", func(i *platform.Instance) *time.Time { return &i.Since }),
		integer("crashes", func(i *platform.Instance) *int { return &i.Crashes }),
		moment("crashed_at", func(i *platform.Instance) *time.Time { return &i.CrashedAt }),
		moment("restart_at", func(i *platform.Instance) *time.Time { return &i.RestartAt }),
		text("details", func(i *platform.Instance) *string { return &i.Details }),
		text("host", func(i *platform.Instance) *string { return &i.Host }),
		text("internal_ip", func(i *platform.Instance) *string { return &i.InternalIP }),
		object("ports", func(i *platform.Instance) *[]platform.InstancePort { return &i.Ports }),
		integer("records_after", func(i *platform.Instance) *uint64 { return &i.RecordsAfter }),
	},
	virtual: ofApp,
	visible: ofVisibleApps,
})

var instanceRestarts = define(table[platform.InstanceRestart]{
	name: "platform_instance_restarts",
	base: (*platform.InstanceRestart).Base,
	columns: []column[platform.InstanceRestart]{
		text("app_guid", func(r *platform.InstanceRestart) *string { return &r.AppGUID }),
		text("process_guid", func(r *platform.InstanceRestart) *string { return &r.ProcessGUID }),
		integer("index", func(r *platform.InstanceRestart) *int { return &r.Index }).named("instance_index"),
	},
	virtual: ofApp,
	visible: ofVisibleApps,
})
