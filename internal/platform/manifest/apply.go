package manifest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Applier changes the apps of a space to what a manifest describes.
type Applier struct {
	Platform *actions.Platform
	Actor    actions.Actor
	Space    *platform.Space
	// Features are the names of the app features.
	Features []string
	// Warnings are for the user.
	Warnings []string
	// MayCreateRoutes returns an error if the caller may not create routes; nil allows
	// it. It is called only if there is a route to create.
	MayCreateRoutes func() error
	// MayUseImages returns an error if apps may not be container images; nil allows it.
	MayUseImages func() error
	// Bind binds a service instance to an app. It returns a job if a broker is
	// involved.
	Bind func(tx platform.Tx, app *platform.App, i *platform.ServiceInstance, s Service) (*platform.Job, error)
	// Pending are the jobs of Bind: the manifest is applied when they are complete.
	Pending []*platform.Job
}

// Create creates the app if it does not exist.
func (a *Applier) Create(tx platform.Tx, m *App) error {
	for _, name := range slices.Sorted(maps.Keys(m.Features)) {
		if !slices.Contains(a.Features, name) {
			return named(m, fault.Invalid("Feature '"+name+"' does not exist"))
		}
	}
	if m.Lifecycle != nil && *m.Lifecycle == platform.LifecycleDocker && a.MayUseImages != nil {
		if err := a.MayUseImages(); err != nil {
			return named(m, err)
		}
	}
	_, err := a.find(tx, m.Name)
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	app := &platform.App{Name: m.Name, SpaceGUID: a.Space.GUID}
	if m.Lifecycle != nil {
		app.Lifecycle.Type = *m.Lifecycle
	}
	m.lifecycle(&app.Lifecycle)
	return named(m, a.Platform.CreateApp(tx, a.Actor, app))
}

func (a *Applier) find(tx platform.Tx, name string) (*platform.App, error) {
	return tx.Apps().First(platform.Where("space_guid", a.Space.GUID).And(platform.In("name", name)))
}

// named adds the name of the app to a problem.
func named(m *App, err error) error {
	return prefixed(fmt.Sprintf("For application '%s': ", m.Name), err)
}

// prefixed adds a prefix to every problem of err.
func prefixed(prefix string, err error) error {
	var e *fault.Error
	if err == nil || !asFault(err, &e) || e.Code == fault.Internal {
		return err
	}
	c := *e
	c.Message = prefix + e.Message
	c.More = nil
	for _, more := range e.More {
		c.More = append(c.More, prefix+more)
	}
	return &c
}

func (m *App) lifecycle(l *platform.Lifecycle) {
	if m.Buildpacks != nil {
		l.Buildpacks = *m.Buildpacks
	}
	if m.Stack != nil {
		l.Stack = *m.Stack
	}
}

// Apply changes what the manifest contains, in the order of Cloud Foundry. It does
// not change anything else, nor the droplet or the state of the app.
func (a *Applier) Apply(tx platform.Tx, m *App) error {
	return named(m, a.apply(tx, m))
}

func (a *Applier) apply(tx platform.Tx, m *App) error {
	app, err := a.find(tx, m.Name)
	if err != nil {
		return err
	}
	for _, step := range []func(platform.Tx, *platform.App, *App) error{a.appKeys, a.processes, a.sidecars, a.routes,
		a.services} {
		if err := step(tx, app, m); err != nil {
			return err
		}
	}
	tx.Announce(platform.Changes{Apps: []string{app.GUID}})
	return nil
}

// appKeys applies features, lifecycle, metadata and environment.
func (a *Applier) appKeys(tx platform.Tx, app *platform.App, m *App) error {
	request := map[string]any{}
	for name, on := range m.Features {
		if old, set := app.Features[name]; !set || old != on {
			if app.Features == nil {
				app.Features = map[string]bool{}
			}
			app.Features[name] = on
			request["features"] = m.Features
		}
	}
	before := app.Lifecycle
	if m.Lifecycle != nil && *m.Lifecycle != before.Type {
		return fault.Invalid("Lifecycle type cannot be changed")
	}
	m.lifecycle(&app.Lifecycle)
	if before.Stack != app.Lifecycle.Stack || !slices.Equal(before.Buildpacks, app.Lifecycle.Buildpacks) {
		if err := a.Platform.CheckLifecycle(tx, &app.Lifecycle); err != nil {
			return err
		}
		request["lifecycle"] = map[string]any{"buildpacks": platform.WithoutPasswords(app.Lifecycle.Buildpacks),
			"stack": app.Lifecycle.Stack}
	}
	labels, annotations := merge(&app.Labels, m.Metadata.Labels), merge(&app.Annotations, m.Metadata.Annotations)
	if labels || annotations {
		request["metadata"] = map[string]any{"labels": app.Labels, "annotations": app.Annotations}
	}
	changed := false
	env := maps.Clone(app.Env)
	if env == nil {
		env = map[string]string{}
	}
	for k, v := range m.Env {
		if old, ok := env[k]; !ok || old != v {
			env[k] = v
			changed = true
		}
	}
	if changed {
		app.Env = env
		request["environment_variables"] = slices.Sorted(maps.Keys(m.Env))
	}
	// The event is recorded even if nothing changed, as in Cloud Foundry.
	unchanged := len(request) == 0
	request[actions.ManifestTriggered] = true
	if unchanged {
		return a.Platform.RecordAppUpdate(tx, a.Actor, app, request)
	}
	return a.Platform.UpdateApp(tx, a.Actor, app, request)
}

// merge applies a patch to a map and reports whether anything changed.
func merge(dest *map[string]string, patch map[string]*string) bool {
	changed := false
	for k, v := range patch {
		old, ok := (*dest)[k]
		switch {
		case v == nil && ok:
			delete(*dest, k)
			changed = true
		case v != nil && (!ok || old != *v):
			if *dest == nil {
				*dest = map[string]string{}
			}
			(*dest)[k] = *v
			changed = true
		}
	}
	return changed
}

func (a *Applier) processes(tx platform.Tx, app *platform.App, m *App) error {
	for _, want := range m.Processes {
		process, err := actions.ProcessOf(tx, app.GUID, want.Type)
		if fault.Is(err, fault.NotFound) {
			if process, err = a.Platform.FittingProcess(tx, app, want.Type); err != nil {
				return err
			}
			wanted := *process
			want.Set(&wanted)
			process.MemoryMB = wanted.MemoryMB
			err = a.Platform.CreateProcess(tx, a.Actor, app, process)
		}
		if err == nil {
			err = a.process(tx, app, process, want)
		}
		if err != nil {
			return prefixed(fmt.Sprintf("Process %q: ", want.Type), err)
		}
	}
	return nil
}

func (a *Applier) process(tx platform.Tx, app *platform.App, process *platform.Process, want *Process) error {
	before, wanted := *process, *process
	want.Set(&wanted)
	scale := platform.Scale{
		Instances: changed(wanted.Instances, before.Instances), MemoryMB: changed(wanted.MemoryMB, before.MemoryMB),
		DiskMB: changed(wanted.DiskMB, before.DiskMB), LogRate: changed(wanted.LogRate, before.LogRate),
	}
	// Scaling is an operation of its own, with checks of quotas.
	*process = wanted
	process.Instances, process.MemoryMB = before.Instances, before.MemoryMB
	process.DiskMB, process.LogRate = before.DiskMB, before.LogRate
	if !reflect.DeepEqual(*process, before) {
		if err := a.Platform.UpdateProcess(tx, a.Actor, app, process,
			map[string]any{actions.ManifestTriggered: true}); err != nil {
			return err
		}
	}
	if scale == (platform.Scale{}) {
		return nil
	}
	return a.Platform.ScaleProcess(tx, a.Actor, app, process, scale, true)
}

// changed returns a value that differs from the one before, otherwise nil.
func changed[T comparable](want, have T) *T {
	if want == have {
		return nil
	}
	return &want
}

// sidecars updates sidecars by name; those that are not listed stay unchanged.
func (a *Applier) sidecars(tx platform.Tx, app *platform.App, m *App) error {
	if len(m.Sidecars) == 0 {
		return nil
	}
	for _, want := range m.Sidecars {
		if err := a.sidecar(tx, app, want); err != nil {
			return prefixed(fmt.Sprintf("Sidecar %q: ", want.Name), err)
		}
	}
	return a.Platform.SidecarsFit(tx, app)
}

func (a *Applier) sidecar(tx platform.Tx, app *platform.App, want *Sidecar) error {
	have, err := tx.Sidecars().First(platform.Where("app_guid", app.GUID).And(platform.In("name", want.Name)))
	exists := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if !exists {
		have = &platform.Sidecar{Name: want.Name}
	}
	before := *have
	have.Command, have.ProcessTypes = want.Command, slices.Sorted(slices.Values(want.ProcessTypes))
	if want.MemoryMB != nil {
		have.MemoryMB = *want.MemoryMB
	}
	have.Options = want.Options
	if !exists {
		return a.Platform.CreateSidecar(tx, a.Actor, app, have)
	}
	same := before.Origin == platform.SidecarOfUser && before.Command == have.Command &&
		before.MemoryMB == have.MemoryMB && before.Options.Equal(have.Options) &&
		slices.Equal(slices.Sorted(slices.Values(before.ProcessTypes)), have.ProcessTypes)
	if same {
		return nil
	}
	return a.Platform.UpdateSidecar(tx, a.Actor, app, have, true)
}

func (a *Applier) routes(tx platform.Tx, app *platform.App, m *App) error {
	if m.NoRoute {
		return a.unmapAll(tx, app)
	}
	for _, want := range m.Routes {
		domain, at, err := a.resolve(tx, want.URL)
		if err != nil {
			return err
		}
		if err := a.mapRoute(tx, app, domain, at, want); err != nil {
			return err
		}
	}
	if len(m.Routes) > 0 || !m.RandomRoute && !m.DefaultRoute {
		return nil
	}
	n, err := tx.Destinations().Count(platform.Where("app_guid", app.GUID))
	if err != nil || n > 0 {
		return err
	}
	domain, err := a.Platform.DefaultDomain(tx, a.Space.OrgGUID)
	if err != nil {
		return fault.New(fault.Unprocessable, "No default domain available")
	}
	host := app.Name
	if !hostName().MatchString(host) || len(host) > 63 {
		return fault.Invalid("Failed to create default route from app name: Host must contain only alphanumeric " +
			"characters, \"_\", or \"-\", and be at most 63 long")
	}
	if m.RandomRoute {
		host = randomHost(host)
	}
	return a.mapRoute(tx, app, domain, address{host: host}, &Route{})
}

var hostName = pattern.OnUse(`^[\w-]+$`)

func randomHost(name string) string {
	adjectives := []string{"brave", "bright", "calm", "eager", "fancy", "gentle", "happy", "keen", "lively", "mellow",
		"quick", "quiet", "shiny", "smart", "sunny", "wise"}
	nouns := []string{"badger", "crane", "dingo", "eagle", "fox", "gecko", "heron", "ibex", "jaguar", "koala", "lynx",
		"marmot", "otter", "panda", "raven", "swan"}
	pick := func(words []string) string { return words[rand.IntN(len(words))] }
	random := func() string { return string(rune('a' + rand.IntN(26))) }
	host := name + "-" + pick(adjectives) + "-" + pick(nouns) + "-" + random() + random()
	if len(host) > 63 {
		host = host[len(host)-63:]
		host = strings.TrimLeft(host, "-")
	}
	return host
}

func (a *Applier) unmapAll(tx platform.Tx, app *platform.App) error {
	mapped, _, err := tx.Destinations().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return err
	}
	for _, d := range mapped {
		route, err := tx.Routes().Get(d.RouteGUID)
		if err != nil {
			return err
		}
		if err := a.Platform.RemoveDestination(tx, a.Actor, route, d); err != nil {
			return err
		}
	}
	return nil
}

// address is the URL of a route: a host name, with a port for TCP routes, and a
// path. As part of a domain it is the host, port and path of a route.
type address struct {
	host, path string
	port       int
}

// resolve splits the URL of a route into its domain and the rest. The host name may
// be a domain; otherwise its first label is the host.
func (a *Applier) resolve(tx platform.Tx, text string) (domain *platform.Domain, at address, err error) {
	if at, err = splitAddress(text); err != nil {
		return nil, at, err
	}
	name := at.host
	at.host = ""
	domain, err = tx.Domains().First(platform.Where("name", name))
	if fault.Is(err, fault.NotFound) {
		first, rest, ok := strings.Cut(name, ".")
		if !ok {
			return nil, at, noDomain(text)
		}
		at.host = first
		domain, err = tx.Domains().First(platform.Where("name", rest))
	}
	if fault.Is(err, fault.NotFound) || err == nil && !platform.UsableIn(domain, a.Space.OrgGUID) {
		return nil, at, noDomain(text)
	}
	if err == nil && domain.RouterGroup != "" && at.port == 0 {
		return nil, at, fault.Invalid("The route '" + text + "' has no port: routes of the domain '" + domain.Name +
			"' are TCP routes, for example '" + domain.Name + ":1024'.")
	}
	return domain, at, err
}

// splitAddress splits the URL of a route.
func splitAddress(text string) (address, error) {
	bare := text
	if scheme, rest, ok := strings.Cut(text, "://"); ok && slices.Contains([]string{"http", "https", "tcp"}, scheme) {
		bare = rest
	}
	u, err := url.Parse("http://" + bare)
	if err != nil || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return address{}, fault.Invalid("The route '" + text + "' is not a properly formed URL")
	}
	at := address{host: u.Hostname(), path: strings.TrimSuffix(u.EscapedPath(), "/")}
	if u.Port() != "" {
		if at.port, err = strconv.Atoi(u.Port()); err != nil || at.port < 1 || at.port > 65535 {
			return address{}, fault.Invalid("The route '" + text + "' has no port between 1 and 65535")
		}
	}
	return at, nil
}

func noDomain(text string) error {
	return fault.Invalid("The route '" + text + "' did not match any existing domains.")
}

func (a *Applier) mapRoute(tx platform.Tx, app *platform.App, domain *platform.Domain, at address, want *Route) error {
	route, err := tx.Routes().First(platform.Where("domain_guid", domain.GUID).And(platform.In("host", at.host)).
		And(platform.In("path", at.path)).And(platform.In("port", at.port)))
	missing := fault.Is(err, fault.NotFound)
	if err != nil && !missing {
		return err
	}
	if missing {
		route = &platform.Route{SpaceGUID: a.Space.GUID, DomainGUID: domain.GUID, Host: at.host, Path: at.path, Port: at.port}
	}
	options, err := platform.MergeRouteOptions(route.Options, want.Options)
	if err != nil {
		return prefixed("Route '"+want.URL+"': ", err)
	}
	if missing {
		if a.MayCreateRoutes != nil {
			if err := a.MayCreateRoutes(); err != nil {
				return err
			}
		}
		route.Options = options
		if err := a.Platform.CreateRoute(tx, a.Actor, route, domain); err != nil {
			return err
		}
	}
	if route.SpaceGUID != a.Space.GUID && !slices.Contains(route.SharedSpaces, a.Space.GUID) {
		return fault.Invalid("Routes cannot be mapped to destinations in different spaces: '" +
			platform.RouteURL(route, domain) + "' belongs to another space")
	}
	if len(want.Options) > 0 && !maps.Equal(options, route.Options) {
		route.Options = options
		if err := a.Platform.UpdateRoute(tx, a.Actor, route); err != nil {
			return err
		}
	}
	have, err := tx.Destinations().First(platform.Where("route_guid", route.GUID).And(platform.In("app_guid", app.GUID)).
		And(platform.In("process_type", platform.WebProcess)))
	if fault.Is(err, fault.NotFound) {
		return a.Platform.AddDestinations(tx, a.Actor, route,
			[]*platform.Destination{{AppGUID: app.GUID, ProcessType: platform.WebProcess, Protocol: want.Protocol}})
	}
	if err != nil || want.Protocol == "" || have.Protocol == want.Protocol {
		return err
	}
	return a.Platform.UpdateDestination(tx, route, have, want.Protocol)
}
