package manifest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/fault"
	known "ingot/internal/base/manifestkeys"
	"ingot/internal/platform"
)

// MaxBytes limits the size of a manifest, maxExpanded that with all aliases expanded:
// an alias that is used a thousand times takes a thousand times its size as the
// value of variables.
const (
	MaxBytes    = 1 << 20
	maxExpanded = 4 << 20
)

// Rule allows something that manifests may not contain otherwise.
type Rule int

// HashRouting allows routes that are balanced by a header.
const HashRouting Rule = 1

// Parse parses and validates a manifest. The error lists every problem with its app
// and key.
func Parse(text []byte, allowed ...Rule) (*Manifest, error) {
	list, err := applications(text)
	if err != nil {
		return nil, err
	}
	return parseApps(list, allowed)
}

// applications returns the entries of a manifest.
func applications(text []byte) ([]any, error) {
	if len(text) > MaxBytes {
		return nil, fault.New(fault.TooLarge, "The manifest is larger than %d bytes", MaxBytes)
	}
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fault.Wrap(err, fault.MessageParse,
			"Request invalid due to parse error: invalid request body: the manifest is not valid YAML: %s", yamlProblem(err))
	}
	room := maxExpanded
	if weigh(doc, &room); room < 0 {
		return nil, fault.Invalid("The manifest is too large when its aliases are followed")
	}
	top, ok := stringKeys(doc)
	if !ok {
		return nil, fault.Invalid("The manifest must be a map with the key 'applications'")
	}
	if v, ok := top["version"]; ok && v != 1 {
		return nil, fault.Invalid("Unsupported manifest schema version. Currently supported versions: [1].")
	}
	list, ok := top["applications"].([]any)
	if !ok || len(list) == 0 {
		return nil, fault.Invalid("Cannot parse manifest with no 'applications' field.")
	}
	return list, nil
}

func parseApps(list []any, allowed []Rule) (*Manifest, error) {
	m := &Manifest{}
	var problems []string
	for i, entry := range list {
		p := &parser{hash: slices.Contains(allowed, HashRouting)}
		m.Apps = append(m.Apps, p.app(entry))
		name := m.Apps[i].Name
		for _, warning := range p.warnings {
			m.Apps[i].Warnings = append(m.Apps[i].Warnings, fmt.Sprintf("For application '%s': %s", name, warning))
		}
		for _, problem := range p.problems {
			if name == "" {
				problems = append(problems, fmt.Sprintf("For application at index %d: %s", i, problem))
			} else {
				problems = append(problems, fmt.Sprintf("For application '%s': %s", name, problem))
			}
		}
		for _, other := range m.Apps[:i] {
			if other.Name == name && name != "" {
				problems = append(problems, fmt.Sprintf("For application '%s': it is listed more than once", name))
			}
		}
	}
	if len(problems) > 0 {
		return nil, fault.Invalid(problems...)
	}
	return m, nil
}

// weigh subtracts the size of a value from room, until nothing is left.
func weigh(v any, room *int) {
	*room -= 8
	if *room < 0 {
		return
	}
	switch v := v.(type) {
	case string:
		*room -= len(v)
	case []any:
		for _, e := range v {
			weigh(e, room)
		}
	case map[any]any:
		for k, e := range v {
			weigh(k, room)
			weigh(e, room)
		}
	}
}

func yamlProblem(err error) string { return strings.TrimPrefix(err.Error(), "yaml: ") }

// stringKeys returns the map with strings as keys.
func stringKeys(v any) (map[string]any, bool) {
	in, ok := v.(map[any]any)
	if !ok {
		return nil, false
	}
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[text(k)] = v
	}
	return out, true
}

// parser collects the problems of one app.
type parser struct {
	problems []string
	warnings []string // about keys without effect
	prefix   string
	hash     bool // routes may be balanced by a header
}

func (p *parser) bad(format string, args ...any) {
	p.problems = append(p.problems, p.prefix+fmt.Sprintf(format, args...))
}

// normal returns a key in canonical form: at the level of apps and processes, dashes
// and underscores are the same.
func (p *parser) normal(v any, what string) map[string]any {
	in, ok := stringKeys(v)
	if !ok {
		p.bad("%s must be a map", what)
		return map[string]any{}
	}
	out := make(map[string]any, len(in))
	for _, k := range slices.Sorted(maps.Keys(in)) {
		key := dashed(k)
		if _, twice := out[key]; twice {
			p.bad("'%s' is given twice, in two spellings", key)
		}
		out[key] = in[k]
	}
	return out
}

func dashed(key string) string { return strings.ReplaceAll(key, "_", "-") }

// notice adds warnings for keys without effect at a level.
func (p *parser) notice(l known.Level, m map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if text := known.Explain(l, key); text != "" && !slices.Contains(p.warnings, text) {
			p.warnings = append(p.warnings, text)
		}
	}
}

// check adds the messages of an error to the problems.
func (p *parser) check(err error) {
	var e *fault.Error
	if asFault(err, &e) {
		for _, m := range e.Messages() {
			p.bad("%s", m)
		}
	}
}

// word returns a string; null is the empty one. Other types are errors, because YAML
// reads a name such as y as true.
func (p *parser) word(keys map[string]any, key, what string) (string, bool) {
	v, ok := keys[key]
	s, isText := v.(string)
	if v != nil && !isText {
		p.bad("%s must be a string", what)
		return "", false
	}
	return s, ok
}

func (p *parser) app(entry any) *App {
	raw := p.normal(entry, "The application")
	app := &App{}
	app.raw, _ = stringKeys(entry)
	p.notice(known.App, app.raw)
	name, _ := p.word(raw, "name", "Name")
	app.Name = name
	switch {
	case name != "":
		p.check(platform.CheckAppName(name))
	case raw["name"] == nil || raw["name"] == "":
		p.bad("Name must not be empty")
	}
	p.lifecycle(app, raw)
	app.Env = p.env(raw)
	app.Features = p.features(raw)
	app.Metadata = p.metadata(raw)
	p.processes(app, raw)
	app.Sidecars = p.sidecars(raw)
	p.routes(app, raw)
	app.Services = p.services(raw)
	return app
}

// text returns a value as it was written, as far as possible: 1.0 does not become 1.
// Lists and maps become JSON.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if abs := math.Abs(v); abs >= 1e-4 && abs < 1e16 || v == 0 {
			s = strconv.FormatFloat(v, 'f', -1, 64)
			if !strings.Contains(s, ".") {
				s += ".0"
			}
		}
		return s
	case map[any]any, map[string]any, []any:
		return asJSON(v)
	default:
		return fmt.Sprint(v)
	}
}

func (p *parser) lifecycle(app *App, raw map[string]any) {
	if v, ok := raw["lifecycle"]; ok {
		kind := text(v)
		if kind != platform.LifecycleBuildpack && kind != platform.LifecycleDocker {
			p.bad("Lifecycle '%s' is not supported by this platform; use 'buildpack' or 'docker'", kind)
		}
		app.Lifecycle = &kind
	}
	p.docker(app, raw)
	if v := raw["stack"]; v != nil {
		stack, isText := v.(string)
		if !isText {
			p.bad("Stack must be a string")
		}
		app.Stack = &stack
	}
	_, both := raw["buildpack"]
	if v, ok := raw["buildpacks"]; ok {
		if both {
			p.bad("Buildpack and Buildpacks fields cannot be used together.")
		}
		list, isList := v.([]any)
		if v != nil && !isList {
			p.bad("Buildpacks must be an array of strings")
		}
		names := []string{}
		for _, b := range list {
			name, isText := b.(string)
			if !isText || name == "" || len(name) > 4096 {
				p.bad("Buildpacks entries must be strings of 1 to 4096 characters")
				continue
			}
			names = append(names, name)
		}
		app.Buildpacks = &names
	} else if both {
		names := []string{}
		name, isText := raw["buildpack"].(string)
		if !isText && raw["buildpack"] != nil || len(name) > 4096 {
			p.bad("Buildpack must be a string of 1 to 4096 characters")
		}
		if name != "" && name != "default" && name != "null" {
			names = append(names, name)
		}
		app.Buildpacks = &names
	}
}

// docker parses the image of an app. The image itself comes with the package, so that
// only the lifecycle follows from it.
func (p *parser) docker(app *App, raw map[string]any) {
	v, ok := raw["docker"]
	if !ok || v == nil {
		return
	}
	_, one := raw["buildpack"]
	_, many := raw["buildpacks"]
	if one || many {
		p.bad("Cannot specify both buildpack(s) and docker keys")
		return
	}
	keys, isMap := stringKeys(v)
	if !isMap {
		p.bad("Docker must be an object with the keys image and username")
		return
	}
	p.notice(known.Docker, keys)
	if image, _ := p.word(keys, "image", "Docker image"); image == "" {
		p.bad("Docker image must be the name of an image, such as registry.example.com/shop:1.2")
	}
	p.word(keys, "username", "Docker username")
	kind := platform.LifecycleDocker
	if app.Lifecycle != nil && *app.Lifecycle != kind {
		p.bad("Cannot specify both lifecycle '%s' and docker keys", *app.Lifecycle)
	}
	app.Lifecycle = &kind
}

func (p *parser) env(raw map[string]any) map[string]string {
	v, ok := raw["env"]
	if !ok || v == nil {
		return nil
	}
	in, isMap := stringKeys(v)
	if !isMap {
		p.bad("Env must be an object containing a map of environment variables")
		return nil
	}
	out := map[string]string{}
	for k, v := range in {
		out[k] = text(v)
	}
	p.check(platform.CheckEnv(out))
	return out
}

func (p *parser) features(raw map[string]any) map[string]bool {
	v, ok := raw["features"]
	if !ok || v == nil {
		return nil
	}
	in, isMap := stringKeys(v)
	if !isMap {
		p.bad("Features must be a map of feature names to booleans")
		return nil
	}
	out := map[string]bool{}
	for _, k := range slices.Sorted(maps.Keys(in)) {
		on, isBool := in[k].(bool)
		if !isBool {
			p.bad("Feature '%s' must be a boolean", k)
		}
		out[k] = on
	}
	return out
}

func (p *parser) metadata(raw map[string]any) (m Metadata) {
	v, ok := raw["metadata"]
	if !ok || v == nil {
		return m
	}
	in, isMap := stringKeys(v)
	if !isMap {
		p.bad("Metadata must be an object")
		return m
	}
	p.notice(known.Metadata, in)
	read := func(key string) map[string]*string {
		v, ok := in[key]
		if !ok || v == nil {
			return nil
		}
		entries, isMap := stringKeys(v)
		if !isMap {
			p.bad("Metadata %s must be an object", key)
			return nil
		}
		out := map[string]*string{}
		for k, v := range entries {
			if v == nil {
				out[k] = nil
				continue
			}
			s := text(v)
			out[k] = &s
		}
		return out
	}
	m = Metadata{Labels: read("labels"), Annotations: read("annotations")}
	p.check(platform.CheckMetadata(m.Labels, m.Annotations))
	return m
}

func (p *parser) sidecars(raw map[string]any) []*Sidecar {
	var out []*Sidecar
	for _, entry := range p.list(raw, "sidecars") {
		keys, isMap := stringKeys(entry)
		if !isMap {
			p.bad("Sidecars must be an array of sidecar configurations")
			continue
		}
		s := &Sidecar{}
		s.Name, _ = p.word(keys, "name", "The name of a sidecar")
		inner := &parser{prefix: fmt.Sprintf("Sidecar %q: ", s.Name)}
		for _, other := range out {
			if other.Name == s.Name {
				inner.bad("may only be present once")
			}
		}
		s.Command, _ = inner.word(keys, "command", "Command")
		list, isList := keys["process_types"].([]any)
		if !isList && keys["process_types"] != nil {
			inner.bad("Process types must be an array")
		}
		for _, t := range list {
			kind, isText := t.(string)
			if !isText {
				inner.bad("Process types must be strings")
			}
			s.ProcessTypes = append(s.ProcessTypes, kind)
		}
		s.Options = inner.sidecarOptions(keys)
		inner.check(platform.CheckSidecar(&platform.Sidecar{Name: s.Name, Command: s.Command, ProcessTypes: s.ProcessTypes,
			Options: s.Options}))
		if v, ok := keys["memory"]; ok && v != nil {
			mb, err := megabytes(v)
			if err != nil {
				inner.bad("Memory in mb is not a number: memory %v", err)
			}
			s.MemoryMB = &mb
		}
		for k := range keys {
			if !slices.Contains(sidecarKeys, k) {
				inner.bad("Unknown field(s): '%s'", k)
			}
		}
		slices.Sort(inner.problems)
		p.problems = append(p.problems, inner.problems...)
		out = append(out, s)
	}
	return out
}

func (p *parser) routes(app *App, raw map[string]any) {
	flags := map[string]*bool{"no-route": &app.NoRoute, "random-route": &app.RandomRoute,
		"default-route": &app.DefaultRoute}
	for _, key := range []string{"no-route", "random-route", "default-route"} {
		v, ok := raw[key]
		if !ok || v == nil {
			continue
		}
		on, isBool := v.(bool)
		if !isBool {
			p.bad("%s must be a boolean", title2(key))
		}
		*flags[key] = on
	}
	if app.RandomRoute && app.DefaultRoute {
		p.bad("Random-route and Default-route may not be used together")
	}
	for _, entry := range p.list(raw, "routes") {
		keys, isMap := stringKeys(entry)
		if !isMap || text(keys["route"]) == "" {
			p.bad("Routes must be a list of route objects: each needs a 'route'")
			continue
		}
		p.notice(known.Route, keys)
		r := &Route{}
		r.URL, _ = p.word(keys, "route", "Route")
		r.Protocol, _ = p.word(keys, "protocol", "Route protocol")
		if !slices.Contains([]string{"", "http1", "http2", platform.ProtocolTCP}, r.Protocol) {
			p.bad("Route protocol must be 'http1', 'http2' or 'tcp'.")
		}
		if v, ok := keys["options"]; ok && v != nil {
			options, isMap := stringKeys(v)
			if !isMap {
				p.bad("Route '%s': options must be an object", r.URL)
			}
			r.Options = p.routeOptions(r.URL, options)
		}
		app.Routes = append(app.Routes, r)
	}
}

// routeOptions validates the options of a route; null removes an option.
func (p *parser) routeOptions(route string, options map[string]any) map[string]any {
	for _, k := range platform.UnknownRouteOptions(options, p.hash) {
		p.bad("Route '%s' contains invalid route option '%s'. Valid keys: '%s'", route, k,
			strings.Join(platform.RouteOptionNames(p.hash), ", "))
	}
	if v := options[platform.OptionLoadBalancing]; v != nil {
		allowed := platform.LoadBalancings(p.hash)
		switch value, ok := v.(string); {
		case !ok:
			p.bad("Invalid value for 'loadbalancing' for Route '%s'; Valid values are: '%s'", route, strings.Join(allowed, ", "))
		case !slices.Contains(allowed, value):
			p.bad("Cannot use loadbalancing value '%s' for Route '%s'; Valid values are: '%s'", value, route,
				strings.Join(allowed, ", "))
		}
	}
	known := maps.Clone(options)
	for _, k := range platform.UnknownRouteOptions(options, p.hash) {
		delete(known, k)
	}
	for _, problem := range platform.CheckRouteOptions(known) {
		p.bad("Route '%s': %s", route, problem)
	}
	out := map[string]any{}
	maps.Copy(out, options)
	return out
}

func title2(key string) string { return strings.ToUpper(key[:1]) + key[1:] }

func (p *parser) services(raw map[string]any) []Service {
	var out []Service
	for _, entry := range p.list(raw, "services") {
		if name, ok := entry.(string); ok {
			out = append(out, Service{Name: name})
			continue
		}
		keys, isMap := stringKeys(entry)
		if !isMap || text(keys["name"]) == "" {
			p.bad("Services must be a list of names or of maps with a name")
			continue
		}
		p.notice(known.Service, keys)
		s := Service{Name: text(keys["name"]), BindingName: text(keys["binding_name"])}
		if v, ok := keys["parameters"]; ok && v != nil {
			params, isMap := plain(v).(map[string]any)
			if !isMap {
				p.bad("Service '%s': parameters must be an object", s.Name)
			}
			s.Parameters = params
		}
		out = append(out, s)
	}
	return out
}
