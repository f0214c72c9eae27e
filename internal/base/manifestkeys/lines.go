package manifestkeys

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/pattern"
)

// Warning is a problem with a manifest key.
type Warning struct {
	Line int
	Key  string
	Text string
}

// shapes are Go types with a field for every known key, by level: a strict
// decoder reports the keys that are missing in them, with their lines. They are made when they are needed: every
// command would wait for them.
var shapes = sync.OnceValue(func() map[Level]reflect.Type {
	anything := reflect.TypeFor[any]()
	made := map[Level]reflect.Type{}
	build := func(l Level, nested map[string]reflect.Type) {
		var fields []reflect.StructField
		add := func(name string, kind reflect.Type) {
			fields = append(fields, reflect.StructField{
				Name: fmt.Sprintf("%c%s%d", l[0]-'a'+'A', l[1:], len(fields)), Type: kind,
				Tag: reflect.StructTag(`yaml:"` + name + `"`),
			})
		}
		for _, k := range at(l) {
			if k.Ignored != "" {
				continue
			}
			kind := anything
			if n, ok := nested[k.Name]; ok {
				kind = n
			}
			for _, name := range spellings(l, k.Name) {
				add(name, kind)
			}
		}
		made[l] = reflect.StructOf(fields)
	}
	for _, l := range []Level{Process, Sidecar, Route, Service, Metadata} {
		build(l, nil)
	}
	build(App, map[string]reflect.Type{
		"processes": reflect.SliceOf(made[Process]), "sidecars": reflect.SliceOf(made[Sidecar]),
		"routes":   reflect.SliceOf(made[Route]),
		"services": reflect.SliceOf(made[Service]), "metadata": made[Metadata],
	})
	build(Top, map[string]reflect.Type{"applications": reflect.SliceOf(made[App])})
	return made
})

// spellings returns the accepted spellings of a key at a level.
func spellings(l Level, name string) []string {
	if l != App && l != Process {
		return []string{name}
	}
	all := []string{""}
	for _, c := range name {
		var next []string
		for _, s := range all {
			if c == '-' || c == '_' {
				next = append(next, s+"-")
				if !slices.Contains(next, s+"_") {
					next = append(next, s+"_")
				}
				continue
			}
			next = append(next, s+string(c))
		}
		all = next
	}
	if len(all) > 2 { // one style throughout, not mixed
		all = []string{all[0], all[len(all)-1]}
	}
	return all
}

var (
	unknownField = pattern.OnUse(`(?s)^line (\d+): field (.+?) not found in type (.+)$`)
	setTwice     = pattern.OnUse(`(?s)^line (\d+): field (.+?) already set in type `)
)

// Check returns the problems with the keys of a manifest, with their lines.
// Text that is not a manifest has no keys; the parser reports it.
func Check(manifest []byte) []Warning {
	into := reflect.New(shapes()[Top])
	var wrong *yaml.TypeError
	if !errors.As(yaml.UnmarshalStrict(manifest, into.Interface()), &wrong) {
		return nil
	}
	var all []Warning
	for _, problem := range wrong.Errors {
		if m := setTwice().FindStringSubmatch(problem); m != nil {
			line, _ := strconv.Atoi(m[1]) // the pattern has digits
			all = append(all, Warning{line, m[2], fmt.Sprintf("manifest key '%s' is set twice; the last value is used", m[2])})
			continue
		}
		m := unknownField().FindStringSubmatch(problem)
		if m == nil {
			continue // the parser checks values
		}
		line, _ := strconv.Atoi(m[1]) // the pattern has digits
		for l, shape := range shapes() {
			if shape.String() != m[3] {
				continue
			}
			if text := Explain(l, m[2]); text != "" {
				all = append(all, Warning{line, m[2], text})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Warning) int { return a.Line - b.Line })
	return all
}
