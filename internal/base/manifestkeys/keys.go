package manifestkeys

import (
	"fmt"
	"slices"
	"strings"

	"ingot/internal/base/suggest"
)

// Level is a section of a manifest that has its own keys.
type Level string

const (
	Top      Level = "manifest"
	App      Level = "application"
	Docker   Level = "docker"
	Process  Level = "process"
	Sidecar  Level = "sidecar"
	Route    Level = "route"
	Service  Level = "service"
	Metadata Level = "metadata"
)

// Key is one key of a manifest.
type Key struct {
	Name    string
	Type    string
	Default string
	Example string
	About   string
	// CF reports whether Cloud Foundry has the key.
	CF bool
	// Client reports whether only clients use the key, and not the platform.
	Client bool
	// Ignored says why this platform ignores the key; "" means that it does
	// not.
	Ignored string
}

// Levels lists all levels, in the order of the reference.
var Levels = []Level{Top, App, Docker, Process, Sidecar, Route, Service, Metadata}

// Of returns the keys of a level. Process keys may also be used at the
// application level, where they apply to the web process.
func Of(l Level) []Key { return table[l] }

const (
	boolean = "boolean"
	text    = "string"
	number  = "integer"
	size    = "size"
	seconds = "seconds"
	list    = "list"
	object  = "map"
	useRts  = "removed from Cloud Foundry; use 'routes'"
)

var table = map[Level][]Key{
	Top: {
		{Name: "version", Type: number, Default: "1", Example: "version: 1",
			About: "Version of the manifest's schema", CF: true},
		{Name: "applications", Type: list, Default: "required", Example: "applications: [{name: shop}]",
			About: "The apps", CF: true},
	},
	App: {
		{Name: "name", Type: text, Default: "required", Example: "name: shop", About: "Name of the app", CF: true},
		{Name: "path", Type: text, Default: "the manifest's folder", Example: "path: build/shop.jar",
			About: "Folder or archive to push, relative to the manifest", CF: true, Client: true},
		{Name: "buildpacks", Type: list, Default: "detected", Example: "buildpacks: [go_buildpack]",
			About: "Buildpacks by name or URL, in order", CF: true},
		{Name: "buildpack", Type: text, Default: "detected", Example: "buildpack: go_buildpack",
			About: "One buildpack; use 'buildpacks'", CF: true},
		{Name: "stack", Type: text, Default: "cflinuxfs4", Example: "stack: cflinuxfs4", About: "Root file system", CF: true},
		{Name: "lifecycle", Type: text, Default: "buildpack", Example: "lifecycle: buildpack",
			About: "How the app is built: 'buildpack', or 'docker' for an image", CF: true},
		{Name: "docker", Type: object, Default: "none", Example: "docker: {image: registry.example.com/shop}",
			About: "Docker image to run instead of files", CF: true},
		{Name: "env", Type: object, Default: "none", Example: "env: {GREETING: hello}",
			About: "Environment variables", CF: true},
		{Name: "features", Type: object, Default: "none", Example: "features: {ssh: false}",
			About: "App features by name", CF: true},
		{Name: "metadata", Type: object, Default: "none", Example: "metadata: {labels: {team: blue}}",
			About: "Labels and annotations", CF: true},
		{Name: "processes", Type: list, Default: "none", Example: "processes: [{type: worker, instances: 1}]",
			About: "Settings per process type", CF: true},
		{Name: "sidecars", Type: list, Default: "none",
			Example: "sidecars: [{name: proxy, process_types: [web], command: ./proxy}]",
			About:   "Processes that run beside others in the same container", CF: true},
		{Name: "routes", Type: list, Default: "none", Example: "routes: [{route: shop.apps.localhost}]",
			About: "Routes to create and map", CF: true},
		{Name: "no-route", Type: boolean, Default: "false", Example: "no-route: true", About: "Unmap all routes", CF: true},
		{Name: "random-route", Type: boolean, Default: "false", Example: "random-route: true",
			About: "Create a random route if the app has none", CF: true},
		{Name: "default-route", Type: boolean, Default: "false", Example: "default-route: true",
			About: "Create the route NAME.DOMAIN if the app has none", CF: true},
		{Name: "services", Type: list, Default: "none", Example: "services: [my-db]",
			About: "Service instances to bind", CF: true},
		{Name: "cnb-credentials", Type: object, Default: "none", Example: "cnb-credentials: {}",
			About: "Credentials for Cloud Native Buildpacks", CF: true, Ignored: "this platform has no Cloud Native Buildpacks"},
		{Name: "host", Type: text, Example: "host: shop", About: "Host name of the route", Ignored: useRts},
		{Name: "hosts", Type: list, Example: "hosts: [shop]", About: "Host names of routes", Ignored: useRts},
		{Name: "domain", Type: text, Example: "domain: apps.localhost", About: "Domain of the route", Ignored: useRts},
		{Name: "domains", Type: list, Example: "domains: [apps.localhost]", About: "Domains of routes", Ignored: useRts},
		{Name: "no-hostname", Type: boolean, Example: "no-hostname: true", About: "Route without a host name",
			Ignored: useRts},
		{Name: "inherit", Type: text, Example: "inherit: base.yml", About: "Parent manifest",
			Ignored: "removed from Cloud Foundry; use YAML anchors or 'push --var'"},
	},
	Docker: {
		{Name: "image", Type: text, Default: "required", Example: "image: registry.example.com/shop:1.2",
			About: "Name of the image, with its registry and a tag or digest", CF: true},
		{Name: "username", Type: text, Default: "none", Example: "username: ann",
			About: "User of a private registry; the password is read from CF_DOCKER_PASSWORD", CF: true},
	},
	Process: {
		{Name: "type", Type: text, Default: "required in 'processes'", Example: "type: worker",
			About: "Process type", CF: true},
		{Name: "command", Type: text, Default: "the buildpack's", Example: "command: ./shop",
			About: "Start command; null restores the buildpack's", CF: true},
		{Name: "user", Type: text, Default: "vcap", Example: "user: vcap",
			About: "User that runs the process; stored, but apps always run as vcap", CF: true},
		{Name: "instances", Type: number, Default: "1 (web), 0 (others)", Example: "instances: 2",
			About: "Number of instances", CF: true},
		{Name: "memory", Type: size, Default: "1G", Example: "memory: 256M",
			About: "Memory limit per instance, with its sidecars", CF: true},
		{Name: "disk-quota", Type: size, Default: "1G", Example: "disk_quota: 512M",
			About: "Disk limit per instance", CF: true},
		{Name: "log-rate-limit-per-second", Type: size, Default: "no limit", Example: "log-rate-limit-per-second: 16K",
			About: "Log bytes per second and instance; -1 means no limit", CF: true},
		{Name: "timeout", Type: seconds, Default: "60", Example: "timeout: 120",
			About: "Seconds an instance may take to become healthy", CF: true},
		{Name: "health-check-type", Type: text, Default: "port (web), process (others)", Example: "health-check-type: http",
			About: "port, process or http", CF: true},
		{Name: "health-check-http-endpoint", Type: text, Default: "/", Example: "health-check-http-endpoint: /health",
			About: "Path of the http health check", CF: true},
		{Name: "health-check-invocation-timeout", Type: seconds, Default: "1", Example: "health-check-invocation-timeout: 5",
			About: "Seconds one health check may take", CF: true},
		{Name: "health-check-interval", Type: seconds, Default: "30", Example: "health-check-interval: 10",
			About: "Seconds between health checks", CF: true},
		{Name: "readiness-health-check-type", Type: text, Default: "process", Example: "readiness-health-check-type: http",
			About: "port, process or http; an instance that is not ready gets no requests", CF: true},
		{Name: "readiness-health-check-http-endpoint", Type: text, Default: "/",
			Example: "readiness-health-check-http-endpoint: /ready", About: "Path of the http readiness check", CF: true},
		{Name: "readiness-health-check-invocation-timeout", Type: seconds, Default: "1",
			Example: "readiness-health-check-invocation-timeout: 5", About: "Seconds one readiness check may take", CF: true},
		{Name: "readiness-health-check-interval", Type: seconds, Default: "30",
			Example: "readiness-health-check-interval: 10", About: "Seconds between readiness checks", CF: true},
		{Name: "min-healthy-time", Type: seconds, Default: "3", Example: "min-healthy-time: 10",
			About: "Seconds a new instance must be ready before a rolling or canary deployment sends it requests and stops " +
				"old ones; 0 turns this off"},
		{Name: "on-credentials", Type: text, Default: "restart", Example: "on-credentials: SIGHUP",
			About: "What instances with service files need when their credentials change: a signal, none or restart"},
	},
	Sidecar: {
		{Name: "name", Type: text, Default: "required", Example: "name: proxy", About: "Name of the sidecar", CF: true},
		{Name: "command", Type: text, Default: "required", Example: "command: ./proxy",
			About: "Command that the sidecar runs", CF: true},
		{Name: "process_types", Type: list, Default: "required", Example: "process_types: [web]",
			About: "Processes that the sidecar runs beside", CF: true},
		{Name: "memory", Type: size, Default: "none", Example: "memory: 32M",
			About: "Part of the process's memory that is reserved for the sidecar", CF: true},
		{Name: "run-in", Type: list, Default: "none", Example: "run-in: [tasks]",
			About: "'tasks': it also runs beside the app's tasks; 'process_types' may then be left out"},
		{Name: "memory-enforced", Type: boolean, Default: "false", Example: "memory-enforced: true",
			About: "The sidecar is killed when it uses more than its memory, and the main process gets the rest"},
		{Name: "cpu-weight", Type: number, Default: "100", Example: "cpu-weight: 50",
			About: "Its share of the processor among the members of the instance, from 1 to 10000"},
		{Name: "depends_on", Type: list, Default: "none", Example: "depends_on: [setup]",
			About: "Sidecars, or 'main', that must be up before it starts"},
		{Name: "before", Type: text, Default: "none", Example: "before: main",
			About: "The main process starts when the sidecar is up"},
		{Name: "restart", Type: text, Default: "the instance is restarted", Example: "restart: on-failure",
			About: "never, on-failure or always: what follows the sidecar's exit"},
		{Name: "optional", Type: boolean, Default: "false", Example: "optional: true",
			About: "The instance lives and is ready without it"},
		{Name: "ports", Type: list, Default: "none", Example: "ports: [9090]",
			About: "Ports it listens on; checks use the first"},
		{Name: "env", Type: object, Default: "none", Example: "env: {LEVEL: debug}",
			About: "Additional environment variables of the sidecar"},
		{Name: "timeout", Type: seconds, Default: "60", Example: "timeout: 10",
			About: "Seconds it may take to become healthy"},
		{Name: "health-check-type", Type: text, Default: "process", Example: "health-check-type: port",
			About: "port, process or http"},
		{Name: "health-check-http-endpoint", Type: text, Default: "/", Example: "health-check-http-endpoint: /health",
			About: "Path of the http health check"},
		{Name: "health-check-invocation-timeout", Type: seconds, Default: "1", Example: "health-check-invocation-timeout: 5",
			About: "Seconds one health check may take"},
		{Name: "health-check-interval", Type: seconds, Default: "30", Example: "health-check-interval: 10",
			About: "Seconds between health checks"},
		{Name: "readiness-health-check-type", Type: text, Default: "process", Example: "readiness-health-check-type: http",
			About: "port, process or http; the instance gets no requests while it is not ready"},
		{Name: "readiness-health-check-http-endpoint", Type: text, Default: "/",
			Example: "readiness-health-check-http-endpoint: /ready", About: "Path of the http readiness check"},
		{Name: "readiness-health-check-invocation-timeout", Type: seconds, Default: "1",
			Example: "readiness-health-check-invocation-timeout: 5", About: "Seconds one readiness check may take"},
		{Name: "readiness-health-check-interval", Type: seconds, Default: "30",
			Example: "readiness-health-check-interval: 10", About: "Seconds between readiness checks"},
		{Name: "stop-after", Type: list, Default: "none", Example: "stop-after: [main]",
			About: "Sidecars, or 'main', that have ended before it is told to stop"},
		{Name: "stop-signal", Type: text, Default: "SIGTERM", Example: "stop-signal: SIGINT",
			About: "Signal that tells it to stop"},
		{Name: "stop-grace", Type: seconds, Default: "what the instance has", Example: "stop-grace: 3",
			About: "Seconds between that signal and SIGKILL"},
		{Name: "pre-stop", Type: text, Default: "none", Example: "pre-stop: ./flush",
			About: "Command to run before it is told to stop, within stop-grace"},
		{Name: "on-credentials", Type: text, Default: "nothing", Example: "on-credentials: SIGHUP",
			About: "What it needs when credentials in service files change: a signal, or restart"},
	},
	Route: {
		{Name: "route", Type: text, Default: "required", Example: "route: shop.apps.localhost/cart",
			About: "Host name, domain and path", CF: true},
		{Name: "protocol", Type: text, Default: "http1", Example: "protocol: http2",
			About: "http1 or http2: what the app speaks", CF: true},
		{Name: "options", Type: object, Default: "none", Example: "options: {loadbalancing: least-connection}",
			About: "Load balancing of the route", CF: true},
	},
	Service: {
		{Name: "name", Type: text, Default: "required", Example: "name: my-db",
			About: "Name of the service instance", CF: true},
		{Name: "binding_name", Type: text, Default: "none", Example: "binding_name: db",
			About: "Name of the binding in VCAP_SERVICES", CF: true},
		{Name: "parameters", Type: object, Default: "none", Example: "parameters: {role: reader}",
			About: "Parameters for the broker", CF: true},
	},
	Metadata: {
		{Name: "labels", Type: object, Default: "none", Example: "labels: {team: blue}",
			About: "Labels; null removes one", CF: true},
		{Name: "annotations", Type: object, Default: "none", Example: "annotations: {contact: ann@example.com}",
			About: "Annotations; null removes one", CF: true},
	},
}

// at returns the keys that are allowed at a level.
func at(l Level) []Key {
	if l != App {
		return table[l]
	}
	web := slices.DeleteFunc(slices.Clone(table[Process]), func(k Key) bool { return k.Name == "type" })
	return slices.Concat(table[App], web)
}

// same reports whether key and name are the same key: applications and
// processes accept dashes for underscores.
func same(l Level, key, name string) bool {
	if l == App || l == Process {
		return strings.ReplaceAll(key, "_", "-") == strings.ReplaceAll(name, "_", "-")
	}
	return key == name
}

func find(l Level, key string) (Key, bool) {
	for _, k := range at(l) {
		if same(l, key, k.Name) {
			return k, true
		}
	}
	return Key{}, false
}

// Explain describes what is wrong with a key at a level; "" means nothing.
func Explain(l Level, key string) string {
	known, ok := find(l, key)
	switch {
	case ok && known.Ignored != "":
		return fmt.Sprintf("manifest key '%s' is ignored: %s", key, known.Ignored)
	case ok:
		return ""
	}
	var names []string
	for _, k := range at(l) {
		names = append(names, k.Name)
	}
	and := " and ignored"
	if l == Sidecar {
		and = "" // unknown keys are rejected there
	}
	if near := suggest.Closest(strings.ReplaceAll(key, "_", "-"), names); near != "" {
		return fmt.Sprintf("manifest key '%s' is unknown%s; did you mean '%s'?", key, and, near)
	}
	if l == Top {
		return "" // commonly used for YAML anchors
	}
	for _, other := range Levels {
		if _, ok := find(other, key); ok && other != Top {
			return fmt.Sprintf("manifest key '%s' is unknown in %s%s; it belongs to %s", key, with(l), and, with(other))
		}
	}
	return fmt.Sprintf("manifest key '%s' is unknown%s", key, and)
}

// with returns the name of a level with its article.
func with(l Level) string {
	switch l {
	case App:
		return "an application"
	case Metadata:
		return "'metadata'"
	}
	return "a " + string(l)
}
