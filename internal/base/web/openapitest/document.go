package openapitest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v2"
)

// Object is an object of the description.
type Object = map[string]any

// Document is a description. Its methods may be called concurrently.
type Document struct {
	root       Object
	operations []*Operation

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
}

// location is the URL of the description for references.
const location = "openapi:///description"

// Parse reads a description. amend, if not nil, may change it first.
func Parse(text []byte, amend func(*Document)) (*Document, error) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	root, ok := normal(tree).(Object)
	if version, _ := root["openapi"].(string); !ok || !strings.HasPrefix(version, "3.1.") {
		return nil, fmt.Errorf("not a description of OpenAPI 3.1, but %q", version)
	}
	d := &Document{root: root, compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	if amend != nil {
		amend(d)
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(location, d.root); err != nil {
		return nil, err
	}
	paths, _ := root["paths"].(Object)
	for template, item := range paths {
		for method := range item.(Object) {
			if slices.Contains([]string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}, method) {
				d.operations = append(d.operations, &Operation{Method: strings.ToUpper(method), Path: template, doc: d,
					at: []string{"paths", template, method}})
			}
		}
	}
	// Literal segments come before parameters.
	slices.SortFunc(d.operations, func(a, b *Operation) int {
		return strings.Compare(strings.ReplaceAll(a.Path, "{", "\x7f"), strings.ReplaceAll(b.Path, "{", "\x7f"))
	})
	return d, nil
}

// normal returns a decoded value with strings as keys.
func normal(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := make(Object, len(v))
		for key, value := range v {
			out[fmt.Sprint(key)] = normal(value)
		}
		if choice, ok := out["discriminator"].(Object); ok {
			discriminate(out, choice)
		}
		return out
	case []any:
		for i, value := range v {
			v[i] = normal(value)
		}
	}
	return v
}

// discriminate replaces oneOf by conditions on the property that chooses one: a
// JSON Schema would accept a value only if it matches none of the others.
func discriminate(schema, discriminator Object) {
	mapping, _ := discriminator["mapping"].(Object)
	name, _ := discriminator["propertyName"].(string)
	if len(mapping) == 0 || schema["oneOf"] == nil {
		return
	}
	delete(schema, "oneOf")
	all, _ := schema["allOf"].([]any)
	var values []any
	for value, ref := range mapping {
		values = append(values, value)
		all = append(all, Object{"if": Object{"properties": Object{name: Object{"const": value}}},
			"then": Object{"$ref": ref}})
	}
	schema["allOf"] = append(all, Object{"required": []any{name}, "properties": Object{name: Object{"enum": values}}})
}

// Find returns the operation of a request; nil if it is not described.
func (d *Document) Find(method, path string) *Operation {
	for _, o := range d.operations {
		if o.Method == method && match(o.Path, path) {
			return o
		}
	}
	return nil
}

func match(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(want, got string) bool {
		return want == got || strings.HasPrefix(want, "{") && got != ""
	})
}

// Operations returns all operations.
func (d *Document) Operations() []*Operation { return d.operations }

// At returns the object at a path of keys. It follows references.
func (d *Document) At(keys ...string) Object {
	node, _ := d.follow(keys)
	return node
}

// Resolve returns the object that v refers to, or v itself.
func (d *Document) Resolve(v any) Object {
	node, _ := v.(Object)
	for {
		ref, ok := node["$ref"].(string)
		if !ok {
			return node
		}
		node, _ = d.follow(keysOf(ref))
	}
}

// follow returns an object and where it is after following references; nil if it
// does not exist.
func (d *Document) follow(keys []string) (Object, []string) {
	node, at := d.root, []string{}
	for _, key := range keys {
		next, ok := node[key].(Object)
		if !ok {
			return nil, nil
		}
		node, at = next, append(at[:len(at):len(at)], key)
		if ref, ok := node["$ref"].(string); ok {
			node, at = d.follow(keysOf(ref))
		}
	}
	return node, at
}

func keysOf(ref string) []string {
	keys := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	for i, key := range keys {
		keys[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
	}
	return keys
}

// CheckSchema compares JSON with a schema of the components.
func (d *Document) CheckSchema(name string, text []byte) error {
	s := &Schema{doc: d, json: true}
	if s.Node, s.at = d.follow([]string{"components", "schemas", name}); s.Node == nil {
		return fmt.Errorf("the schema %s does not exist", name)
	}
	return s.Check(text)
}

// schema returns the compiled schema at a path of keys.
func (d *Document) schema(keys []string) (*jsonschema.Schema, error) {
	at := location + "#"
	for _, key := range keys {
		at += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(key))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.compiled[at]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(at)
	if err == nil {
		d.compiled[at] = s
	}
	return s, err
}
