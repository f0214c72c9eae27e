package platformdb

import "ingot/internal/platform"

var packages = define(table[platform.Package]{
	name: "platform_packages",
	base: (*platform.Package).Base, meta: (*platform.Package).Meta,
	columns: []column[platform.Package]{
		text("app_guid", func(p *platform.Package) *string { return &p.AppGUID }),
		text("type", func(p *platform.Package) *string { return &p.Type }),
		text("state", func(p *platform.Package) *platform.PackageState { return &p.State }),
		text("error", func(p *platform.Package) *string { return &p.Error }),
		text("checksum", func(p *platform.Package) *string { return &p.Checksum }),
		text("image", func(p *platform.Package) *string { return &p.Image }),
		text("username", func(p *platform.Package) *string { return &p.Username }),
		sealed("platform_packages", "password", (*platform.Package).Base,
			func(p *platform.Package) *string { return &p.Password }),
	},
	ofApp: func(p *platform.Package) string { return p.AppGUID },
})

var builds = define(table[platform.Build]{
	name: "platform_builds",
	base: (*platform.Build).Base, meta: (*platform.Build).Meta,
	columns: []column[platform.Build]{
		text("app_guid", func(b *platform.Build) *string { return &b.AppGUID }),
		text("package_guid", func(b *platform.Build) *string { return &b.PackageGUID }),
		text("droplet_guid", func(b *platform.Build) *string { return &b.DropletGUID }),
		text("state", func(b *platform.Build) *platform.BuildState { return &b.State }),
		text("error", func(b *platform.Build) *string { return &b.Error }),
		text("lifecycle_type", func(b *platform.Build) *string { return &b.Lifecycle.Type }),
		text("stack", func(b *platform.Build) *string { return &b.Lifecycle.Stack }),
		object("buildpacks", func(b *platform.Build) *[]string { return &b.Lifecycle.Buildpacks }),
		integer("memory_mb", func(b *platform.Build) *int { return &b.MemoryMB }),
		integer("disk_mb", func(b *platform.Build) *int { return &b.DiskMB }),
		integer("log_rate", func(b *platform.Build) *int64 { return &b.LogRate }),
		text("creator_guid", func(b *platform.Build) *string { return &b.CreatorGUID }),
		text("creator_name", func(b *platform.Build) *string { return &b.CreatorName }),
		text("creator_mail", func(b *platform.Build) *string { return &b.CreatorMail }),
	},
	ofApp: func(b *platform.Build) string { return b.AppGUID },
})

var droplets = define(table[platform.Droplet]{
	name: "platform_droplets",
	base: (*platform.Droplet).Base, meta: (*platform.Droplet).Meta,
	columns: []column[platform.Droplet]{
		text("app_guid", func(d *platform.Droplet) *string { return &d.AppGUID }),
		text("package_guid", func(d *platform.Droplet) *string { return &d.PackageGUID }),
		text("build_guid", func(d *platform.Droplet) *string { return &d.BuildGUID }),
		text("state", func(d *platform.Droplet) *platform.DropletState { return &d.State }),
		text("error", func(d *platform.Droplet) *string { return &d.Error }),
		text("lifecycle", func(d *platform.Droplet) *string { return &d.Lifecycle }),
		text("checksum", func(d *platform.Droplet) *string { return &d.Checksum }),
		integer("size", func(d *platform.Droplet) *int64 { return &d.Size }),
		text("stack", func(d *platform.Droplet) *string { return &d.Stack }),
		text("image", func(d *platform.Droplet) *string { return &d.Image }),
		object("container", func(d *platform.Droplet) **platform.Image { return &d.Container }),
		text("image_username", func(d *platform.Droplet) *string { return &d.ImageUsername }),
		sealed("platform_droplets", "image_password", (*platform.Droplet).Base,
			func(d *platform.Droplet) *string { return &d.ImagePassword }),
		object("buildpacks", func(d *platform.Droplet) *[]platform.DropletBuildpack { return &d.Buildpacks }),
		object("process_types", func(d *platform.Droplet) *map[string]string { return &d.ProcessTypes }),
		object("sidecars", func(d *platform.Droplet) *[]platform.DropletSidecar { return &d.Sidecars }),
		text("execution_metadata", func(d *platform.Droplet) *string { return &d.ExecutionMetadata }),
	},
	virtual: map[string]field{
		"current": {kind: boolean, sql: "EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = t.app_guid AND " +
			"a.droplet_guid = t.guid)"},
	},
	ofApp: func(d *platform.Droplet) string { return d.AppGUID },
})
