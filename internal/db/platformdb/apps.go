package platformdb

import (
	"time"

	"ingot/internal/cf"
)

var apps = define(table[cf.App]{
	name: "platform_apps",
	base: (*cf.App).Base, meta: (*cf.App).Meta,
	columns: []column[cf.App]{
		name("name", func(a *cf.App) *string { return &a.Name }),
		text("space_guid", func(a *cf.App) *string { return &a.SpaceGUID }),
		text("state", func(a *cf.App) *cf.AppState { return &a.State }),
		text("lifecycle_type", func(a *cf.App) *string { return &a.Lifecycle.Type }),
		text("stack", func(a *cf.App) *string { return &a.Lifecycle.Stack }),
		object("buildpacks", func(a *cf.App) *[]string { return &a.Lifecycle.Buildpacks }),
		text("droplet_guid", func(a *cf.App) *string { return &a.DropletGUID }),
		sealed("platform_apps", "environment", (*cf.App).Base, func(a *cf.App) *map[string]string { return &a.Env }),
		object("features", func(a *cf.App) *map[string]bool { return &a.Features }),
	},
	virtual: map[string]field{"organization_guid": orgOfSpace},
	visible: inHisSpaces,
})

var processes = define(table[cf.Process]{
	name: "platform_processes",
	base: (*cf.Process).Base, meta: (*cf.Process).Meta,
	columns: []column[cf.Process]{
		text("app_guid", func(p *cf.Process) *string { return &p.AppGUID }),
		text("type", func(p *cf.Process) *string { return &p.Type }),
		text("command", func(p *cf.Process) *string { return &p.Command }),
		text("user", func(p *cf.Process) *string { return &p.User }).named("run_as"),
		integer("instances", func(p *cf.Process) *int { return &p.Instances }),
		integer("memory_mb", func(p *cf.Process) *int { return &p.MemoryMB }),
		integer("disk_mb", func(p *cf.Process) *int { return &p.DiskMB }),
		integer("log_rate", func(p *cf.Process) *int64 { return &p.LogRate }),
		object("health", func(p *cf.Process) *cf.HealthCheck { return &p.Health }),
		object("readiness", func(p *cf.Process) *cf.HealthCheck { return &p.Readiness }),
		text("version", func(p *cf.Process) *string { return &p.Version }),
		text("droplet_guid", func(p *cf.Process) *string { return &p.DropletGUID }),
	},
	virtual: ofApp,
	visible: ofAppsInHis,
})

var sidecars = define(table[cf.Sidecar]{
	name: "platform_sidecars",
	base: (*cf.Sidecar).Base,
	columns: []column[cf.Sidecar]{
		text("app_guid", func(s *cf.Sidecar) *string { return &s.AppGUID }),
		text("name", func(s *cf.Sidecar) *string { return &s.Name }),
		text("command", func(s *cf.Sidecar) *string { return &s.Command }),
		object("process_types", func(s *cf.Sidecar) *[]string { return &s.ProcessTypes }),
		integer("memory_mb", func(s *cf.Sidecar) *int { return &s.MemoryMB }),
		text("origin", func(s *cf.Sidecar) *string { return &s.Origin }),
	},
	virtual: ofApp,
	visible: ofAppsInHis,
})

var deployments = define(table[cf.Deployment]{
	name: "platform_deployments",
	base: (*cf.Deployment).Base, meta: (*cf.Deployment).Meta,
	columns: []column[cf.Deployment]{
		text("app_guid", func(d *cf.Deployment) *string { return &d.AppGUID }),
		text("strategy", func(d *cf.Deployment) *string { return &d.Strategy }),
		text("status", func(d *cf.Deployment) *string { return &d.Status }),
		text("reason", func(d *cf.Deployment) *string { return &d.Reason }),
		moment("last_change", func(d *cf.Deployment) *time.Time { return &d.LastChange }),
		text("droplet_guid", func(d *cf.Deployment) *string { return &d.DropletGUID }),
		text("previous_droplet_guid", func(d *cf.Deployment) *string { return &d.PreviousDropletGUID }),
		integer("max_in_flight", func(d *cf.Deployment) *int { return &d.MaxInFlight }),
		object("options", func(d *cf.Deployment) *cf.DeploymentOptions { return &d.Options }),
		integer("step", func(d *cf.Deployment) *int { return &d.Step }),
		object("web_before", func(d *cf.Deployment) *cf.WebRun { return &d.Before }),
		moment("last_healthy", func(d *cf.Deployment) *time.Time { return &d.LastHealthy }),
		text("error", func(d *cf.Deployment) *string { return &d.Error }),
	},
	virtual: ofApp,
	visible: ofAppsInHis,
})

var tasks = define(table[cf.Task]{
	name: "platform_tasks",
	base: (*cf.Task).Base, meta: (*cf.Task).Meta,
	columns: []column[cf.Task]{
		text("app_guid", func(t *cf.Task) *string { return &t.AppGUID }),
		integer("sequence_id", func(t *cf.Task) *int { return &t.Sequence }),
		text("name", func(t *cf.Task) *string { return &t.Name }),
		sealed("platform_tasks", "command", (*cf.Task).Base, func(t *cf.Task) *string { return &t.Command }),
		text("droplet_guid", func(t *cf.Task) *string { return &t.DropletGUID }),
		text("state", func(t *cf.Task) *cf.TaskState { return &t.State }),
		text("reason", func(t *cf.Task) *string { return &t.Reason }),
		integer("memory_mb", func(t *cf.Task) *int { return &t.MemoryMB }),
		integer("disk_mb", func(t *cf.Task) *int { return &t.DiskMB }),
		integer("log_rate", func(t *cf.Task) *int64 { return &t.LogRate }),
	},
	virtual: map[string]field{
		"space_guid": spaceOfApp, "organization_guid": orgOfApp,
		// There is a newer one of the same app.
		"superseded": {kind: boolean, sql: "EXISTS (SELECT 1 FROM platform_tasks n WHERE n.app_guid = t.app_guid AND n.sequence_id > t.sequence_id)"},
	},
	visible: ofAppsInHis,
})

var instances = define(table[cf.Instance]{
	name: "platform_instances",
	base: (*cf.Instance).Base,
	columns: []column[cf.Instance]{
		text("app_guid", func(i *cf.Instance) *string { return &i.AppGUID }),
		text("process_guid", func(i *cf.Instance) *string { return &i.ProcessGUID }),
		integer("index", func(i *cf.Instance) *int { return &i.Index }).named("instance_index"),
		text("version", func(i *cf.Instance) *string { return &i.Version }),
		text("state", func(i *cf.Instance) *cf.InstanceState { return &i.State }),
		flag("ready", func(i *cf.Instance) *bool { return &i.Ready }),
		moment("since", func(i *cf.Instance) *time.Time { return &i.Since }),
		integer("crashes", func(i *cf.Instance) *int { return &i.Crashes }),
		moment("crashed_at", func(i *cf.Instance) *time.Time { return &i.CrashedAt }),
		moment("restart_at", func(i *cf.Instance) *time.Time { return &i.RestartAt }),
		text("details", func(i *cf.Instance) *string { return &i.Details }),
		text("host", func(i *cf.Instance) *string { return &i.Host }),
		text("internal_ip", func(i *cf.Instance) *string { return &i.InternalIP }),
		object("ports", func(i *cf.Instance) *[]cf.InstancePort { return &i.Ports }),
		integer("records_after", func(i *cf.Instance) *uint64 { return &i.RecordsAfter }),
	},
	virtual: ofApp,
	visible: ofAppsInHis,
})
