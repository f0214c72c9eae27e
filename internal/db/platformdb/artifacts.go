package platformdb

import "ingot/internal/cf"

var packages = define(table[cf.Package]{
	name: "platform_packages",
	base: (*cf.Package).Base, meta: (*cf.Package).Meta,
	columns: []column[cf.Package]{
		text("app_guid", func(p *cf.Package) *string { return &p.AppGUID }),
		text("type", func(p *cf.Package) *string { return &p.Type }),
		text("state", func(p *cf.Package) *string { return &p.State }),
		text("error", func(p *cf.Package) *string { return &p.Error }),
		text("checksum", func(p *cf.Package) *string { return &p.Checksum }),
		text("image", func(p *cf.Package) *string { return &p.Image }),
		text("username", func(p *cf.Package) *string { return &p.Username }),
		sealed("platform_packages", "password", (*cf.Package).Base, func(p *cf.Package) *string { return &p.Password }),
	},
	virtual: ofApp,
	visible: ofAppsInHis,
})

var builds = define(table[cf.Build]{
	name: "platform_builds",
	base: (*cf.Build).Base, meta: (*cf.Build).Meta,
	columns: []column[cf.Build]{
		text("app_guid", func(b *cf.Build) *string { return &b.AppGUID }),
		text("package_guid", func(b *cf.Build) *string { return &b.PackageGUID }),
		text("droplet_guid", func(b *cf.Build) *string { return &b.DropletGUID }),
		text("state", func(b *cf.Build) *string { return &b.State }),
		text("error", func(b *cf.Build) *string { return &b.Error }),
		text("lifecycle_type", func(b *cf.Build) *string { return &b.Lifecycle.Type }),
		text("stack", func(b *cf.Build) *string { return &b.Lifecycle.Stack }),
		object("buildpacks", func(b *cf.Build) *[]string { return &b.Lifecycle.Buildpacks }),
		integer("memory_mb", func(b *cf.Build) *int { return &b.MemoryMB }),
		integer("disk_mb", func(b *cf.Build) *int { return &b.DiskMB }),
		integer("log_rate", func(b *cf.Build) *int64 { return &b.LogRate }),
		text("creator_guid", func(b *cf.Build) *string { return &b.CreatorGUID }),
		text("creator_name", func(b *cf.Build) *string { return &b.CreatorName }),
		text("creator_mail", func(b *cf.Build) *string { return &b.CreatorMail }),
	},
	virtual: ofApp,
	visible: ofAppsInHis,
})

var droplets = define(table[cf.Droplet]{
	name: "platform_droplets",
	base: (*cf.Droplet).Base, meta: (*cf.Droplet).Meta,
	columns: []column[cf.Droplet]{
		text("app_guid", func(d *cf.Droplet) *string { return &d.AppGUID }),
		text("package_guid", func(d *cf.Droplet) *string { return &d.PackageGUID }),
		text("build_guid", func(d *cf.Droplet) *string { return &d.BuildGUID }),
		text("state", func(d *cf.Droplet) *string { return &d.State }),
		text("error", func(d *cf.Droplet) *string { return &d.Error }),
		text("lifecycle", func(d *cf.Droplet) *string { return &d.Lifecycle }),
		text("checksum", func(d *cf.Droplet) *string { return &d.Checksum }),
		integer("size", func(d *cf.Droplet) *int64 { return &d.Size }),
		text("stack", func(d *cf.Droplet) *string { return &d.Stack }),
		text("image", func(d *cf.Droplet) *string { return &d.Image }),
		object("buildpacks", func(d *cf.Droplet) *[]cf.DropletBuildpack { return &d.Buildpacks }),
		object("process_types", func(d *cf.Droplet) *map[string]string { return &d.ProcessTypes }),
		object("sidecars", func(d *cf.Droplet) *[]cf.DropletSidecar { return &d.Sidecars }),
		text("execution_metadata", func(d *cf.Droplet) *string { return &d.ExecutionMetadata }),
	},
	virtual: map[string]field{
		"space_guid": spaceOfApp, "organization_guid": orgOfApp,
		"current": {kind: boolean, sql: "EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = t.app_guid AND a.droplet_guid = t.guid)"},
	},
	visible: ofAppsInHis,
})
