package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	known "ingot/internal/base/manifestkeys"
	"ingot/internal/platform"
)

// processes parses the list of processes. If web is not in it, the app's own keys
// apply to web.
func (p *parser) processes(app *App, raw map[string]any) {
	listed := p.list(raw, "processes")
	var types []string
	for _, entry := range listed {
		keys := p.normal(entry, "Each process")
		if written, ok := stringKeys(entry); ok {
			p.notice(known.Process, written)
		}
		kind, _ := p.word(keys, "type", "The type of a process")
		switch {
		case kind == "":
			p.bad("All Processes must specify a type")
			continue
		case len([]rune(kind)) > 255 || strings.ContainsFunc(kind, unicode.IsControl):
			p.bad("The type of a process must be at most 255 characters, none of them a control character")
		}
		if slices.Contains(types, kind) {
			p.bad("Process %q may only be present once", kind)
		}
		types = append(types, kind)
		app.Processes = append(app.Processes, p.process(kind, keys))
	}
	if slices.Contains(types, platform.WebProcess) {
		p.shadowed(raw)
	} else if web := p.process(platform.WebProcess, raw); web.says() {
		app.Processes = slices.Insert(app.Processes, 0, web)
	}
}

// shadowed warns of keys of the app that the entry of its web process in 'processes'
// overrides.
func (p *parser) shadowed(raw map[string]any) {
	for _, k := range known.Of(known.Process) {
		if _, ok := raw[k.Name]; ok {
			p.warnings = append(p.warnings,
				fmt.Sprintf("manifest key '%s' is ignored: 'processes' lists the process 'web', so it belongs there", k.Name))
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
	inner := &parser{prefix: fmt.Sprintf("Process %q: ", kind)}
	out := inner.processKeys(kind, keys)
	p.problems = append(p.problems, inner.problems...)
	return out
}

func (p *parser) processKeys(kind string, keys map[string]any) *Process {
	out := &Process{Type: kind}
	if command, ok := p.word(keys, "command", "Command"); ok {
		if command == "" && keys["command"] != nil || len([]rune(command)) > 4096 {
			p.bad("Command must be between 1 and 4096 characters")
		}
		command = orDetected(command)
		out.Command = &command
	}
	if user, ok := p.word(keys, "user", "User"); ok {
		out.User = &user
	}
	out.Instances = p.number(keys, "instances", 0)
	if out.Instances != nil && *out.Instances > platform.MaxInstances {
		p.bad("Instances must be less than or equal to %d", platform.MaxInstances)
	}
	for _, size := range []struct {
		key, what string
		to        **int
	}{{"memory", "Memory", &out.MemoryMB}, {"disk-quota", "Disk quota", &out.DiskMB}} {
		if v, ok := keys[size.key]; ok && v != nil {
			mb, err := megabytes(v)
			if err != nil {
				p.bad("%s %v", size.what, err)
			}
			*size.to = &mb
		}
	}
	if v, ok := keys["log-rate-limit-per-second"]; ok && v != nil {
		rate, err := logRate(v)
		if err != nil {
			p.bad("Log rate limit per second %v", err)
		}
		out.LogRate = &rate
	}
	out.Health = p.healthCheck(keys, "health-check")
	out.Health.Timeout = p.number(keys, "timeout", 1)
	out.Readiness = p.healthCheck(keys, "readiness-health-check")
	if out.MinHealthy = p.number(keys, "min-healthy-time", 0); out.MinHealthy != nil &&
		*out.MinHealthy > platform.MaxMinHealthy {
		p.bad("Min healthy time must be less than or equal to %d", platform.MaxMinHealthy)
	}
	if word, ok := p.word(keys, "on-credentials", "On credentials"); ok {
		word = onCredentials(word)
		if err := platform.CheckOnCredentials(word); err != nil {
			p.bad("On credentials must be restart, none, or one of %s", strings.Join(platform.CredentialSignals, ", "))
		}
		out.OnCredentials = &word
	}
	return out
}

// orDetected returns the empty string for the values that request the command that
// staging detects.
func orDetected(command string) string {
	if command == "null" || command == "default" {
		return ""
	}
	return command
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

func (p *parser) healthCheck(keys map[string]any, prefix string) Check {
	var c Check
	if v, ok := keys[prefix+"-type"]; ok && v != nil {
		kind := platform.CheckType(text(v))
		if kind == "none" {
			kind = platform.CheckProcess
		}
		if kind != platform.CheckPort && kind != platform.CheckProcess && kind != platform.CheckHTTP {
			p.bad("%s type must be \"port\", \"process\", or \"http\"", title(prefix))
		}
		c.Type = &kind
	}
	if v, ok := keys[prefix+"-http-endpoint"]; ok && v != nil {
		endpoint := text(v)
		if !strings.HasPrefix(endpoint, "/") {
			p.bad("%s http endpoint must be a valid URI path", title(prefix))
		}
		if c.Type != nil && *c.Type != platform.CheckHTTP {
			p.bad("%s type must be \"http\" to set a health check HTTP endpoint", title(prefix))
		}
		c.Endpoint = &endpoint
	}
	c.InvocationTimeout = p.number(keys, prefix+"-invocation-timeout", 1)
	c.Interval = p.number(keys, prefix+"-interval", 1)
	return c
}
