package manifest

import (
	"fmt"
	"slices"
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
func (p *Process) says() bool { return len(p.edits) > 0 }

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
	for _, f := range processFields {
		if v, ok := keys[f.key]; ok && (v != nil || f.clearable) {
			out.edits = append(out.edits, f.read(p, v, keys))
		}
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

func title(key string) string {
	return strings.ToUpper(key[:1]) + strings.ReplaceAll(key[1:], "-", " ")
}
