package manifest

import (
	"slices"
	"strconv"
	"strings"

	"ingot/internal/platform"
)

// processField is a key of a process. All that manifests do with a setting of a process follows
// from its entry in processFields.
type processField struct {
	key string
	// read checks a value and returns what it changes. keys has the other keys of the process.
	read func(p *parser, v any, keys map[string]any) edit
	// show returns the value of a process; nil leaves the key out.
	show func(*platform.Process) any
	// normal returns a value in the form of show, for values that can be written in several ways.
	// Without it a number may be written as text.
	normal func(v any) any
	// written is the key in manifests of existing apps, if it is spelled otherwise there.
	written string
	// clearable says that null sets the default; otherwise null means nothing.
	clearable bool
}

// edit changes a setting of a process.
type edit func(*platform.Process)

// processFields are the keys of a process, in the order in which a manifest of an app has them.
// An app may have them itself, for its web process.
var processFields = slices.Concat(
	[]processField{
		{key: "instances", read: instancesField, show: func(p *platform.Process) any { return p.Instances }},
		sizeField("memory", "memory", func(p *platform.Process) *int { return &p.MemoryMB }),
		sizeField("disk-quota", "disk_quota", func(p *platform.Process) *int { return &p.DiskMB }),
		{key: "log-rate-limit-per-second", read: logRateField,
			show: func(p *platform.Process) any { return showRate(p.LogRate) }, normal: normalRate},
		{key: "command", read: commandField, clearable: true, normal: detectedOrText,
			show: func(p *platform.Process) any { return orLeftOut(p.Command) }},
		{key: "user", read: userField, clearable: true, normal: detectedOrText,
			show: func(p *platform.Process) any { return orLeftOut(p.User) }},
	},
	checkFields("health-check", func(p *platform.Process) *platform.HealthCheck { return &p.Health }),
	[]processField{timeoutField(func(p *platform.Process) *platform.HealthCheck { return &p.Health })},
	checkFields("readiness-health-check", func(p *platform.Process) *platform.HealthCheck { return &p.Readiness }),
	[]processField{
		{key: "min-healthy-time", read: minHealthyField, show: func(p *platform.Process) any {
			if p.MinHealthy == nil {
				return nil
			}
			return *p.MinHealthy
		}},
		{key: "on-credentials", read: onCredentialsField, clearable: true,
			show:   func(p *platform.Process) any { return orLeftOut(p.OnCredentials) },
			normal: func(v any) any { return orLeftOut(onCredentials(text(v))) }},
	},
)

// processFieldOf returns the field of a key with dashes, or nil.
func processFieldOf(key string) *processField {
	at := slices.IndexFunc(processFields, func(f processField) bool { return f.key == key })
	if at < 0 {
		return nil
	}
	return &processFields[at]
}

// canonical returns a value so that equal values compare as equal.
func (f *processField) canonical(v any) any {
	if f.normal != nil {
		return f.normal(v)
	}
	if s, isText := v.(string); isText {
		if n, err := strconv.Atoi(s); err == nil {
			return n
		}
	}
	return v
}

// orLeftOut returns nil for an empty text.
func orLeftOut(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// detectedOrText returns nil for the values that request what staging detects.
func detectedOrText(v any) any { return orLeftOut(orDetected(text(v))) }

func instancesField(p *parser, v any, _ map[string]any) edit {
	n := p.number(v, "instances", 0)
	if n > platform.MaxInstances {
		p.bad("Instances must be less than or equal to %d", platform.MaxInstances)
	}
	return func(to *platform.Process) { to.Instances = n }
}

func minHealthyField(p *parser, v any, _ map[string]any) edit {
	n := p.number(v, "min-healthy-time", 0)
	if n > platform.MaxMinHealthy {
		p.bad("Min healthy time must be less than or equal to %d", platform.MaxMinHealthy)
	}
	return func(to *platform.Process) { to.MinHealthy = &n }
}

func logRateField(p *parser, v any, _ map[string]any) edit {
	rate, err := logRate(v)
	if err != nil {
		p.bad("Log rate limit per second %v", err)
	}
	return func(to *platform.Process) { to.LogRate = rate }
}

func normalRate(v any) any {
	if rate, err := logRate(v); err == nil {
		return showRate(rate)
	}
	return v
}

func commandField(p *parser, v any, keys map[string]any) edit {
	command, ok := p.word(keys, "command", "Command")
	if ok && (command == "" && v != nil || len([]rune(command)) > 4096) {
		p.bad("Command must be between 1 and 4096 characters")
	}
	return func(to *platform.Process) { to.Command = orDetected(command) }
}

func userField(p *parser, _ any, keys map[string]any) edit {
	user, _ := p.word(keys, "user", "User")
	return func(to *platform.Process) { to.User = user }
}

func onCredentialsField(p *parser, _ any, keys map[string]any) edit {
	word, _ := p.word(keys, "on-credentials", "On credentials")
	word = onCredentials(word)
	if err := platform.CheckOnCredentials(word); err != nil {
		p.bad("On credentials must be restart, none, or one of %s", strings.Join(platform.CredentialSignals, ", "))
	}
	return func(to *platform.Process) { to.OnCredentials = word }
}

// sizeField is a size, which is stored in megabytes.
func sizeField(key, written string, of func(*platform.Process) *int) processField {
	return processField{key: key, written: written,
		read: func(p *parser, v any, _ map[string]any) edit {
			mb, err := megabytes(v)
			if err != nil {
				p.bad("%s %v", title(key), err)
			}
			return func(to *platform.Process) { *of(to) = mb }
		},
		show: func(p *platform.Process) any { return showMB(*of(p)) },
		normal: func(v any) any {
			if mb, err := megabytes(v); err == nil {
				return showMB(mb)
			}
			return v
		},
	}
}

// timeoutKey is the key of the time in which an instance has to become healthy.
const timeoutKey = "timeout"

// timeoutField is the key of the timeout of the health check.
func timeoutField(of func(*platform.Process) *platform.HealthCheck) processField {
	return processField{key: timeoutKey,
		read: func(p *parser, v any, _ map[string]any) edit {
			n := p.number(v, timeoutKey, 1)
			return func(to *platform.Process) { of(to).Timeout = n }
		},
		show: func(p *platform.Process) any { return orDefault(of(p).Timeout) },
	}
}

// checkFields are the keys of a check of a process.
func checkFields(prefix string, of func(*platform.Process) *platform.HealthCheck) []processField {
	var fields []processField
	for _, c := range checkKeys {
		fields = append(fields, processField{key: prefix + c.suffix, normal: c.normal,
			read: func(p *parser, v any, keys map[string]any) edit {
				change := c.read(p, prefix, v, keys)
				return func(to *platform.Process) { change(of(to)) }
			},
			show: func(p *platform.Process) any { return c.show(of(p)) },
		})
	}
	return fields
}

// checkKey is a key of a health or readiness check, of a process or a sidecar.
type checkKey struct {
	suffix string
	read   func(p *parser, prefix string, v any, keys map[string]any) func(*platform.HealthCheck)
	show   func(*platform.HealthCheck) any
	normal func(v any) any
}

var checkKeys = []checkKey{
	{suffix: "-type", read: readCheckType, show: func(h *platform.HealthCheck) any { return string(h.Type) },
		normal: func(v any) any {
			if v == "none" {
				return string(platform.CheckProcess)
			}
			return v
		}},
	{suffix: "-http-endpoint", read: readEndpoint, show: func(h *platform.HealthCheck) any {
		if h.Type != platform.CheckHTTP {
			return nil
		}
		return h.Endpoint
	}},
	checkSeconds("-invocation-timeout", func(h *platform.HealthCheck) *int { return &h.InvocationTimeout }),
	checkSeconds("-interval", func(h *platform.HealthCheck) *int { return &h.Interval }),
}

func readCheckType(p *parser, prefix string, v any, _ map[string]any) func(*platform.HealthCheck) {
	kind := checkType(v)
	if kind != platform.CheckPort && kind != platform.CheckProcess && kind != platform.CheckHTTP {
		p.bad("%s type must be \"port\", \"process\", or \"http\"", title(prefix))
	}
	return func(h *platform.HealthCheck) {
		h.Type = kind
		if kind != platform.CheckHTTP {
			h.Endpoint = ""
		} else if h.Endpoint == "" {
			h.Endpoint = "/"
		}
	}
}

func readEndpoint(p *parser, prefix string, v any, keys map[string]any) func(*platform.HealthCheck) {
	endpoint := text(v)
	if !strings.HasPrefix(endpoint, "/") {
		p.bad("%s http endpoint must be a valid URI path", title(prefix))
	}
	if kind := keys[prefix+"-type"]; kind != nil && checkType(kind) != platform.CheckHTTP {
		p.bad("%s type must be \"http\" to set a health check HTTP endpoint", title(prefix))
	}
	return func(h *platform.HealthCheck) { h.Type, h.Endpoint = platform.CheckHTTP, endpoint }
}

func checkSeconds(suffix string, of func(*platform.HealthCheck) *int) checkKey {
	return checkKey{suffix: suffix,
		read: func(p *parser, prefix string, v any, _ map[string]any) func(*platform.HealthCheck) {
			n := p.number(v, prefix+suffix, 1)
			return func(h *platform.HealthCheck) { *of(h) = n }
		},
		show: func(h *platform.HealthCheck) any { return orDefault(*of(h)) },
	}
}

// orDefault returns nil for zero, which is the default.
func orDefault(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// checkType returns the type of check that a value names.
func checkType(v any) platform.CheckType {
	if kind := platform.CheckType(text(v)); kind != "none" {
		return kind
	}
	return platform.CheckProcess
}

// number returns a number that a value has; a text may have it too.
func (p *parser) number(v any, key string, least int) int {
	n, isInt := v.(int)
	if s, isText := v.(string); isText {
		parsed, err := strconv.Atoi(s)
		n, isInt = parsed, err == nil
	}
	if !isInt || n < least {
		p.bad("%s must be an integer greater than or equal to %d", title(key), least)
		return least
	}
	return n
}
