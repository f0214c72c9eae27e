package push

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/cli/apps"
	"ingot/internal/cli/core"
)

// pushFlags are the flags of push that override the manifest.
type pushFlags struct {
	Manifest    string    `short:"f" value-name:"FILE" description:"Path to the manifest (default: manifest.yml in this folder)"`
	NoManifest  bool      `long:"no-manifest" description:"Ignore the manifest"`
	Vars        []string  `long:"var" value-name:"NAME=VALUE" description:"Set a manifest variable"`
	VarsFiles   []string  `long:"vars-file" value-name:"FILE" description:"YAML file with manifest variables"`
	Path        string    `short:"p" value-name:"PATH" description:"Folder, jar, war or zip to push"`
	Buildpacks  []string  `short:"b" value-name:"BUILDPACK" description:"Buildpack name or URL (can be repeated)"`
	Command     string    `short:"c" value-name:"COMMAND" description:"Start command; null restores the buildpack's"`
	Instances   *int      `short:"i" value-name:"N" description:"Number of instances"`
	Memory      string    `short:"m" value-name:"SIZE" description:"Memory per instance, such as 256M or 1G"`
	Disk        string    `short:"k" value-name:"SIZE" description:"Disk per instance, such as 512M or 2G"`
	LogRate     core.Rate `short:"l" value-name:"SIZE" description:"Log rate limit per instance in bytes per second, such as 16K; -1 removes the limit"`
	Stack       string    `short:"s" value-name:"STACK" description:"Stack"`
	Timeout     int       `short:"t" value-name:"SECONDS" description:"Seconds an instance may take to become healthy"`
	HealthCheck string    `short:"u" value-name:"port|process|http" description:"Health check type"`
	Endpoint    string    `long:"endpoint" value-name:"PATH" description:"Path of the HTTP health check (with -u http)"`
	NoRoute     bool      `long:"no-route" description:"Do not create a route"`
	RandomRoute bool      `long:"random-route" description:"Create a random route"`
	DockerImage string    `short:"o" value-name:"IMAGE" description:"Docker image to run instead of files"`
	DockerUser  string    `long:"docker-username" value-name:"NAME" description:"User name for the image registry; the password is read from CF_DOCKER_PASSWORD"`
	Droplet     string    `long:"droplet" value-name:"FILE" description:"Droplet to run instead of files, such as one from download-droplet; skips staging"`
	NoStart     bool      `long:"no-start" description:"Upload only; do not stage or start"`
	Task        bool      `long:"task" description:"Stage without starting or routing; the app only runs tasks"`
	AppName     string    `no-flag:"yes"`
	apps.DeployFlags
}

// plan is one app to push.
type plan struct {
	name   string
	path   string // folder or archive
	docker string
	user   string
	// droplet is the path of a droplet to push instead of files.
	droplet string
}

// plans returns the manifest to apply and the apps to push.
func (f *pushFlags) plans(w *core.Env) (*document, []plan, error) {
	doc, err := f.document(w)
	if err != nil {
		return nil, nil, err
	}
	if err := f.pick(doc); err != nil {
		return nil, nil, err
	}
	var all []plan
	for i, app := range doc.Applications {
		p := plan{name: text0(app, "name"), path: w.Dir}
		if p.name == "" {
			return nil, nil, &core.Problem{What: "An app in the manifest has no name.",
				Try: "add a name, or pass one: 'push NAME'"}
		}
		if path := text0(app, "path"); path != "" {
			if !filepath.IsAbs(path) {
				path = filepath.Join(doc.dir, path)
			}
			p.path = path
		}
		if f.Path != "" {
			p.path = w.Path(f.Path)
		}
		if f.Droplet != "" {
			p.droplet = w.Path(f.Droplet)
		}
		app = f.apply(without(app, "path"))
		if docker, ok := get(app, "docker").(yaml.MapSlice); ok {
			p.docker, p.user = text0(docker, "image"), text0(docker, "username")
		}
		doc.Applications[i] = app
		all = append(all, p)
	}
	return doc, all, nil
}

func (f *pushFlags) document(w *core.Env) (*document, error) {
	path := ""
	switch {
	case f.NoManifest:
	case f.Manifest != "":
		path = w.Path(f.Manifest)
	default:
		var err error
		if path, err = findManifest(w.Dir); err != nil {
			return nil, err
		}
	}
	if path != "" {
		vars, err := readVars(w, f.VarsFiles, f.Vars)
		if err != nil {
			return nil, err
		}
		return readManifest(path, vars)
	}
	if f.AppName == "" {
		return nil, core.UsageError("APP is required because there is no manifest.yml in this folder")
	}
	return &document{Applications: []yaml.MapSlice{{{Key: "name", Value: f.AppName}}}, dir: w.Dir}, nil
}

// pick keeps only the named app, or rejects flags that would apply to all apps.
func (f *pushFlags) pick(doc *document) error {
	if f.AppName == "" {
		if len(doc.Applications) > 1 && f.hasAppFlags() {
			return core.UsageError("APP is required: the manifest has several apps and the flags apply to one")
		}
		return nil
	}
	var names []string
	for _, app := range doc.Applications {
		if text0(app, "name") == f.AppName {
			doc.Applications = []yaml.MapSlice{app}
			return nil
		}
		names = append(names, text0(app, "name"))
	}
	if len(doc.Applications) == 1 {
		doc.Applications[0] = append(yaml.MapSlice{{Key: "name", Value: f.AppName}}, without(doc.Applications[0], "name")...)
		return nil
	}
	return &core.Problem{What: fmt.Sprintf("The manifest has no app %s.", f.AppName), Existing: "Apps in the manifest: " +
		strings.Join(names, ", ")}
}

func (f *pushFlags) hasAppFlags() bool {
	return f.Path != "" || len(f.Buildpacks) > 0 || f.Command != "" || f.Instances != nil || f.Memory != "" ||
		f.Disk != "" || f.LogRate != "" ||
		f.Stack != "" || f.Timeout != 0 || f.HealthCheck != "" || f.Endpoint != "" || f.NoRoute || f.RandomRoute ||
		f.DockerImage != "" || f.Droplet != ""
}

// apply merges the flags into an app of the manifest. Settings of a process go
// into its web process, if the app lists processes.
func (f *pushFlags) apply(app yaml.MapSlice) yaml.MapSlice {
	if len(f.Buildpacks) > 0 {
		packs := f.Buildpacks
		if len(packs) == 1 && (packs[0] == "null" || packs[0] == "default") {
			packs = []string{}
		}
		app = set(without(app, "buildpack"), "buildpacks", packs)
	}
	if f.Stack != "" {
		app = set(app, "stack", f.Stack)
	}
	if f.DockerImage != "" {
		docker := yaml.MapSlice{{Key: "image", Value: f.DockerImage}}
		if f.DockerUser != "" {
			docker = set(docker, "username", f.DockerUser)
		}
		app = set(app, "docker", docker)
	}
	switch {
	case f.NoRoute || f.Task:
		app = set(without(app, "routes", "random-route", "default-route"), "no-route", true)
	case f.RandomRoute:
		app = set(without(app, "default-route"), "random-route", true)
	case get(app, "no-route", "no_route") == nil && get(app, "random-route", "random_route") == nil &&
		get(app, "routes") == nil:
		app = set(app, "default-route", true)
	}
	if processes, ok := get(app, "processes").([]any); ok {
		for i, one := range processes {
			if m, ok := one.(yaml.MapSlice); ok && text0(m, "type") == "web" {
				processes[i] = f.applyProcess(m, "disk_quota")
				return app
			}
		}
	}
	return f.applyProcess(app, "disk-quota")
}

func (f *pushFlags) applyProcess(m yaml.MapSlice, disk string) yaml.MapSlice {
	// With a strategy the size belongs to the new version: it is set on the
	// deployment.
	if f.Instances != nil && f.Strategy == "" {
		m = set(m, "instances", *f.Instances)
	}
	if f.Timeout > 0 {
		m = set(m, "timeout", f.Timeout)
	}
	if f.Command == "null" || f.Command == "default" {
		m = set(m, "command", nil)
	} else if f.Command != "" {
		m = set(m, "command", f.Command)
	}
	if f.Disk != "" && f.Strategy == "" {
		m = set(without(m, "disk_quota", "disk-quota"), disk, f.Disk)
	}
	memory, logRate := f.Memory, string(f.LogRate)
	if f.Strategy != "" {
		memory, logRate = "", ""
	}
	for _, one := range []struct{ key, value string }{
		{"memory", memory}, {"log-rate-limit-per-second", logRate},
		{"health-check-type", f.HealthCheck}, {"health-check-http-endpoint", f.Endpoint},
	} {
		if one.value != "" {
			m = set(m, one.key, one.value)
		}
	}
	return m
}

// sizes adds the instance sizes of a push to the options.
func (f *pushFlags) sizes(o apps.DeployOptions) error {
	if f.Instances != nil {
		o["web_instances"] = *f.Instances
	}
	if err := core.Sizes(o, f.Memory, f.Disk); err != nil {
		return err
	}
	if f.LogRate == "" {
		return nil
	}
	const key = "log_rate_limit_in_bytes_per_second"
	if n, err := strconv.ParseInt(string(f.LogRate), 10, 64); err == nil && (n == 0 || n == -1) {
		o[key] = n
		return nil
	}
	mb, err := core.Megabytes(string(f.LogRate))
	if err != nil {
		return fmt.Errorf("-l: %w", err)
	}
	o[key] = mb << 20
	return nil
}
