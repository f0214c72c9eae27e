package manifest

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/fault"
	known "ingot/internal/base/manifestkeys"
	"ingot/internal/platform"
)

// sidecarKeys are the keys of a sidecar: those of Cloud Foundry, and those of its options.
var sidecarKeys = func() (names []string) {
	for _, k := range known.Of(known.Sidecar) {
		names = append(names, k.Name)
	}
	return names
}()

// sidecarOptions reads what a sidecar asks for beyond Cloud Foundry.
func (p *parser) sidecarOptions(keys map[string]any) platform.SidecarOptions {
	o := platform.SidecarOptions{
		RunIn: p.names(keys, "run-in"), DependsOn: p.names(keys, "depends_on"), StopAfter: p.names(keys, "stop-after"),
		Ports: p.ports(keys), Env: p.env(keys),
	}
	o.Restart, _ = p.word(keys, "restart", "Restart")
	o.PreStop, _ = p.word(keys, "pre-stop", "Pre stop")
	o.StopSignal, _ = p.word(keys, "stop-signal", "Stop signal")
	if o.StopSignal = strings.ToUpper(o.StopSignal); o.StopSignal != "" && !strings.HasPrefix(o.StopSignal, "SIG") {
		o.StopSignal = "SIG" + o.StopSignal
	}
	o.OnCredentials, _ = p.word(keys, "on-credentials", "On credentials")
	o.OnCredentials = onCredentials(o.OnCredentials)
	if before, _ := p.word(keys, "before", "Before"); before != "" {
		o.BeforeMain = before == platform.MainMember
		if !o.BeforeMain {
			p.bad("Before must be %q; use depends_on of the other sidecar", platform.MainMember)
		}
	}
	o.Optional = p.flag(keys, "optional")
	o.MemoryEnforced = p.flag(keys, "memory-enforced")
	if v := keys["cpu-weight"]; v != nil {
		o.CPUWeight = p.number(v, "cpu-weight", 1)
	}
	if v := keys["stop-grace"]; v != nil {
		o.StopGrace = p.number(v, "stop-grace", 1)
	}
	o.Health, o.Readiness = p.sidecarCheck("health-check", keys), p.sidecarCheck("readiness-health-check", keys)
	if v := keys[timeoutKey]; v != nil {
		if o.Health == nil {
			o.Health = &platform.HealthCheck{Type: platform.CheckProcess}
		}
		o.Health.Timeout = p.number(v, timeoutKey, 1)
	}
	return o
}

// ParseSidecarOptions reads the keys of a sidecar that Cloud Foundry does not have, which
// buildpacks may use in launch.yml. The error lists every problem.
func ParseSidecarOptions(text []byte) (platform.SidecarOptions, error) {
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return platform.SidecarOptions{}, fault.Wrap(err, fault.Unprocessable, "it is not valid YAML: %s", yamlProblem(err))
	}
	keys, isMap := stringKeys(doc)
	if !isMap {
		return platform.SidecarOptions{}, fault.Invalid("it is not a map of keys")
	}
	p := &parser{}
	o := p.sidecarOptions(keys)
	for k := range keys {
		if !slices.ContainsFunc(known.Of(known.Sidecar), func(key known.Key) bool { return key.Name == k && !key.CF }) {
			p.bad("Unknown field(s): '%s'", k)
		}
	}
	slices.Sort(p.problems)
	return o, fault.Invalid(p.problems...)
}

// onCredentials returns the value of on-credentials in canonical form: signals may be written
// as hup, HUP or SIGHUP.
func onCredentials(word string) string {
	if word == "" || strings.EqualFold(word, platform.OnCredentialsNone) ||
		strings.EqualFold(word, platform.OnCredentialsRestart) {
		return strings.ToLower(word)
	}
	return "SIG" + strings.TrimPrefix(strings.ToUpper(word), "SIG")
}

// sidecarCheck returns the health or readiness check of a sidecar, or nil if the manifest has none.
func (p *parser) sidecarCheck(prefix string, keys map[string]any) *platform.HealthCheck {
	h := &platform.HealthCheck{Type: platform.CheckProcess}
	given := false
	for _, c := range checkKeys {
		if v := keys[prefix+c.suffix]; v != nil {
			c.read(p, prefix, v, keys)(h)
			given = true
		}
	}
	if !given {
		return nil
	}
	return h
}

// flag returns a boolean; missing means false.
func (p *parser) flag(keys map[string]any, key string) bool {
	v, ok := keys[key]
	if !ok || v == nil {
		return false
	}
	on, isBool := v.(bool)
	if !isBool {
		p.bad("%s must be true or false", title(key))
	}
	return on
}

// names returns a list of names; one alone may be a string.
func (p *parser) names(keys map[string]any, key string) []string {
	switch v := keys[key].(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, e := range v {
			name, isText := e.(string)
			if !isText {
				p.bad("%s must be a list of names", title(key))
				return nil
			}
			all = append(all, name)
		}
		return all
	default:
		p.bad("%s must be a list of names", title(key))
		return nil
	}
}

// ports returns the ports of a sidecar; one alone may be a number.
func (p *parser) ports(keys map[string]any) []int {
	v, ok := keys["ports"]
	if !ok || v == nil {
		return nil
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	var all []int
	for _, e := range list {
		n, isInt := e.(int)
		if !isInt {
			p.bad("Ports must be a list of numbers")
			return nil
		}
		all = append(all, n)
	}
	return all
}

// describeOptions returns the options of a sidecar as keys of a manifest.
func describeOptions(o platform.SidecarOptions) (out yaml.MapSlice) {
	set := func(key string, value any, given bool) {
		if given {
			out = append(out, yaml.MapItem{Key: key, Value: value})
		}
	}
	set("run-in", o.RunIn, len(o.RunIn) > 0)
	set("memory-enforced", true, o.MemoryEnforced)
	set("cpu-weight", o.CPUWeight, o.CPUWeight > 0)
	set("depends_on", o.DependsOn, len(o.DependsOn) > 0)
	set("before", platform.MainMember, o.BeforeMain)
	set("restart", o.Restart, o.Restart != "")
	set("optional", true, o.Optional)
	set("ports", o.Ports, len(o.Ports) > 0)
	for prefix, h := range map[string]*platform.HealthCheck{"health-check": o.Health,
		"readiness-health-check": o.Readiness} {
		if h == nil {
			continue
		}
		set(prefix+"-type", string(h.Type), true)
		set(prefix+"-http-endpoint", h.Endpoint, h.Type == platform.CheckHTTP)
		set(prefix+"-invocation-timeout", h.InvocationTimeout, h.InvocationTimeout > 0)
		set(prefix+"-interval", h.Interval, h.Interval > 0)
		set("timeout", h.Timeout, h.Timeout > 0)
	}
	set("env", o.Env, len(o.Env) > 0)
	set("stop-signal", o.StopSignal, o.StopSignal != "")
	set("stop-grace", o.StopGrace, o.StopGrace > 0)
	set("stop-after", o.StopAfter, len(o.StopAfter) > 0)
	set("pre-stop", o.PreStop, o.PreStop != "")
	set("on-credentials", o.OnCredentials, o.OnCredentials != "")
	slices.SortStableFunc(out, func(a, b yaml.MapItem) int {
		return slices.Index(sidecarKeys, a.Key.(string)) - slices.Index(sidecarKeys, b.Key.(string))
	})
	return out
}
