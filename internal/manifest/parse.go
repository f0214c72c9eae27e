package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/cf"
	"ingot/internal/fault"
)

// MaxBytes bounds a manifest.
const MaxBytes = 1 << 20

// Parse reads and checks a manifest. The error lists every problem, each with
// the app and key it is about.
func Parse(text []byte) (*Manifest, error) {
	if len(text) > MaxBytes {
		return nil, fault.New(fault.TooLarge, "The manifest is larger than %d bytes", MaxBytes)
	}
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fault.Wrap(err, fault.MessageParse, "Request invalid due to parse error: invalid request body: the manifest is not valid YAML: %s", yamlProblem(err))
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
	m := &Manifest{}
	var problems []string
	for i, entry := range list {
		p := &parser{}
		m.Apps = append(m.Apps, p.app(entry))
		name := m.Apps[i].Name
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

func yamlProblem(err error) string { return strings.TrimPrefix(err.Error(), "yaml: ") }

// stringKeys returns a map whose keys are text.
func stringKeys(v any) (map[string]any, bool) {
	in, ok := v.(map[any]any)
	if !ok {
		return nil, false
	}
	out := make(map[string]any, len(in))
	for k, v := range in {
		out[fmt.Sprint(k)] = v
	}
	return out, true
}

// parser collects the problems of one app.
type parser struct {
	problems []string
	prefix   string
}

func (p *parser) bad(format string, args ...any) {
	p.problems = append(p.problems, p.prefix+fmt.Sprintf(format, args...))
}

// normal gives keys one spelling: at the level of apps and processes, dashes
// and underscores are the same.
func (p *parser) normal(v any, what string) map[string]any {
	in, ok := stringKeys(v)
	if !ok {
		p.bad("%s must be a map", what)
		return map[string]any{}
	}
	out := make(map[string]any, len(in))
	for k, v := range in {
		key := strings.ReplaceAll(k, "_", "-")
		if _, twice := out[key]; twice {
			p.bad("%s is given twice, as '%s' and with the other spelling", key, k)
		}
		out[key] = v
	}
	return out
}

func (p *parser) app(entry any) *App {
	raw := p.normal(entry, "The application")
	app := &App{raw: raw}
	if name, ok := raw["name"]; !ok || text(name) == "" {
		p.bad("Name must be present")
	} else {
		app.Name = text(name)
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

// text is a simple value as people wrote it.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

func (p *parser) lifecycle(app *App, raw map[string]any) {
	if v, ok := raw["lifecycle"]; ok {
		kind := text(v)
		if kind != "buildpack" {
			p.bad("Lifecycle '%s' is not supported by this platform; use 'buildpack'", kind)
		}
		app.Lifecycle = &kind
	}
	if _, ok := raw["docker"]; ok {
		_, one := raw["buildpack"]
		_, many := raw["buildpacks"]
		if one || many {
			p.bad("Cannot specify both buildpack(s) and docker keys")
		} else {
			p.bad("Docker images are not supported by this platform")
		}
	}
	if v, ok := raw["stack"]; ok {
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
		if name := text(raw["buildpack"]); name != "" && name != "default" && name != "null" {
			names = append(names, name)
		}
		app.Buildpacks = &names
	}
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
		switch v.(type) {
		case map[any]any, []any:
			out[k] = asJSON(v)
		default:
			out[k] = text(v)
		}
	}
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
	for k, v := range in {
		on, isBool := v.(bool)
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
	return Metadata{Labels: read("labels"), Annotations: read("annotations")}
}

// processes reads the list, and the app's own keys for web where the list does
// not mention it.
func (p *parser) processes(app *App, raw map[string]any) {
	listed := p.list(raw, "processes")
	var types []string
	for _, entry := range listed {
		keys := p.normal(entry, "Each process")
		kind := text(keys["type"])
		if kind == "" {
			p.bad("All Processes must specify a type")
			continue
		}
		if slices.Contains(types, kind) {
			p.bad("Process %q may only be present once", kind)
		}
		types = append(types, kind)
		inner := &parser{prefix: fmt.Sprintf("Process %q: ", kind)}
		app.Processes = append(app.Processes, inner.process(kind, keys))
		p.problems = append(p.problems, inner.problems...)
	}
	if !slices.Contains(types, cf.WebProcess) {
		if web := p.process(cf.WebProcess, raw); web.says() {
			app.Processes = slices.Insert(app.Processes, 0, web)
		}
	}
}

// says reports whether anything is set.
func (p *Process) says() bool {
	return *p != Process{Type: p.Type}
}

func (p *parser) list(raw map[string]any, key string) []any {
	v, ok := raw[key]
	if !ok || v == nil {
		return nil
	}
	list, isList := v.([]any)
	if !isList {
		one := map[string]string{"processes": "process", "sidecars": "sidecar", "routes": "route", "services": "service"}[key]
		p.bad("%s must be an array of %s configurations", title(key), one)
	}
	return list
}

func (p *parser) process(kind string, keys map[string]any) *Process {
	out := &Process{Type: kind}
	if v, ok := keys["command"]; ok {
		command := text(v)
		if command == "null" || command == "default" {
			command = ""
		}
		if len([]rune(command)) > 4096 {
			p.bad("Command must be between 1 and 4096 characters")
		}
		out.Command = &command
	}
	if v, ok := keys["user"]; ok {
		user := text(v)
		out.User = &user
	}
	out.Instances = p.number(keys, "instances", 0)
	for key, to := range map[string]**int{"memory": &out.MemoryMB, "disk-quota": &out.DiskMB} {
		if v, ok := keys[key]; ok && v != nil {
			mb, err := megabytes(v)
			if err != nil {
				p.bad("%s %v", map[string]string{"memory": "Memory", "disk-quota": "Disk quota"}[key], err)
			}
			*to = &mb
		}
	}
	if v, ok := keys["log-rate-limit-per-second"]; ok && v != nil {
		rate, err := logRate(v)
		if err != nil {
			p.bad("Log rate limit per second %v", err)
		}
		out.LogRate = &rate
	}
	out.Health = p.check(keys, "health-check")
	out.Health.Timeout = p.number(keys, "timeout", 1)
	out.Readiness = p.check(keys, "readiness-health-check")
	return out
}

func (p *parser) number(keys map[string]any, key string, least int) *int {
	v, ok := keys[key]
	if !ok || v == nil {
		return nil
	}
	n, isInt := v.(int)
	if s, isText := v.(string); isText {
		parsed, err := strconv.Atoi(s)
		n, isInt = parsed, err == nil
	}
	if !isInt || n < least {
		p.bad("%s must be an integer greater than or equal to %d", title(key), least)
		return nil
	}
	return &n
}

func title(key string) string {
	return strings.ToUpper(key[:1]) + strings.ReplaceAll(key[1:], "-", " ")
}

func (p *parser) check(keys map[string]any, prefix string) Check {
	var c Check
	if v, ok := keys[prefix+"-type"]; ok && v != nil {
		kind := cf.CheckType(text(v))
		if kind == "none" {
			kind = cf.CheckProcess
		}
		if kind != cf.CheckPort && kind != cf.CheckProcess && kind != cf.CheckHTTP {
			p.bad("%s type must be \"port\", \"process\", or \"http\"", title(prefix))
		}
		c.Type = &kind
	}
	if v, ok := keys[prefix+"-http-endpoint"]; ok && v != nil {
		endpoint := text(v)
		if !strings.HasPrefix(endpoint, "/") {
			p.bad("%s http endpoint must be a valid URI path", title(prefix))
		}
		if c.Type != nil && *c.Type != cf.CheckHTTP {
			p.bad("%s type must be \"http\" to set a health check HTTP endpoint", title(prefix))
		}
		c.Endpoint = &endpoint
	}
	c.InvocationTimeout = p.number(keys, prefix+"-invocation-timeout", 1)
	c.Interval = p.number(keys, prefix+"-interval", 1)
	return c
}

func (p *parser) sidecars(raw map[string]any) []*Sidecar {
	var out []*Sidecar
	for _, entry := range p.list(raw, "sidecars") {
		keys, isMap := stringKeys(entry)
		if !isMap {
			p.bad("Sidecars must be an array of sidecar configurations")
			continue
		}
		s := &Sidecar{Name: text(keys["name"])}
		inner := &parser{prefix: fmt.Sprintf("Sidecar %q: ", s.Name)}
		if s.Name == "" {
			inner.bad("Name can't be blank")
		}
		for _, other := range out {
			if other.Name == s.Name {
				inner.bad("may only be present once")
			}
		}
		if v, ok := keys["command"]; ok {
			command := text(v)
			s.Command = &command
		}
		if v, ok := keys["process_types"]; ok {
			list, isList := v.([]any)
			if !isList {
				inner.bad("Process types must be an array")
			}
			for _, t := range list {
				s.ProcessTypes = append(s.ProcessTypes, text(t))
			}
		}
		if v, ok := keys["memory"]; ok && v != nil {
			mb, err := megabytes(v)
			if err != nil {
				inner.bad("Memory in mb is not a number: memory %v", err)
			}
			s.MemoryMB = &mb
		}
		for k := range keys {
			if !slices.Contains([]string{"name", "command", "process_types", "memory"}, k) {
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
	flags := map[string]*bool{"no-route": &app.NoRoute, "random-route": &app.RandomRoute, "default-route": &app.DefaultRoute}
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
		r := &Route{URL: text(keys["route"]), Protocol: text(keys["protocol"])}
		if r.Protocol != "" && r.Protocol != "http1" && r.Protocol != "http2" {
			if r.Protocol == "tcp" {
				p.bad("Route '%s': protocol 'tcp' is for TCP routes, which this platform does not have", r.URL)
			} else {
				p.bad("Route protocol must be 'http1', 'http2' or 'tcp'.")
			}
		}
		if v, ok := keys["options"]; ok && v != nil {
			options, isMap := stringKeys(v)
			if !isMap {
				p.bad("Route '%s': options must be an object", r.URL)
			}
			r.Options = map[string]string{}
			for k, v := range options {
				value := text(v)
				if k != "loadbalancing" {
					p.bad("Route '%s' contains invalid route option '%s'. Valid keys: 'loadbalancing'", r.URL, k)
				} else if value != "round-robin" && value != "least-connection" {
					p.bad("Cannot use loadbalancing value '%s' for Route '%s'; Valid values are: 'round-robin, least-connection'", value, r.URL)
				}
				r.Options[k] = value
			}
		}
		app.Routes = append(app.Routes, r)
	}
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
		s := Service{Name: text(keys["name"]), BindingName: text(keys["binding_name"])}
		if v, ok := keys["parameters"]; ok && v != nil {
			params, isMap := stringKeys(v)
			if !isMap {
				p.bad("Service '%s': parameters must be an object", s.Name)
			}
			s.Parameters = params
		}
		out = append(out, s)
	}
	return out
}
