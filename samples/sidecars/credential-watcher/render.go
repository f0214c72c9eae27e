package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"text/template"

	"ingot/samples/internal/sample"
)

// bound is a service in templates.
type bound struct {
	Name, Label string
	Tags        []string
	Credentials map[string]any
}

// Credential returns a credential as text. One that does not exist is an error.
func (b bound) Credential(name string) (string, error) {
	v, ok := b.Credentials[name]
	if !ok {
		return "", fmt.Errorf("the service %s has no credential %q, only %q", b.Name, name,
			slices.Sorted(maps.Keys(b.Credentials)))
	}
	if text := (&sample.Service{Credentials: b.Credentials}).Credential(name); text != "" || v == "" {
		return text, nil
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// functions are those that templates can use, besides those of text/template.
func functions(services []bound, getenv func(string) string) template.FuncMap {
	one := func(what, value string, has func(bound) bool) (*bound, error) {
		var found []bound
		for _, s := range services {
			if has(s) {
				found = append(found, s)
			}
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("%d bound services have the %s %q, want 1", len(found), what, value)
		}
		return &found[0], nil
	}
	return template.FuncMap{
		"service": func(name string) (*bound, error) {
			return one("name", name, func(s bound) bool { return s.Name == name })
		},
		"label": func(label string) (*bound, error) {
			return one("label", label, func(s bound) bool { return s.Label == label })
		},
		"tag": func(tag string) (*bound, error) {
			return one("tag", tag, func(s bound) bool { return slices.Contains(s.Tags, tag) })
		},
		"services": func() []bound { return services },
		"env":      getenv,
		"json": func(v any) (string, error) {
			text, err := json.Marshal(v)
			return string(text), err
		},
		"urlquery": url.QueryEscape,
	}
}

// render fills a template in. A credential that does not exist is an error.
func render(file string, services []sample.Service, getenv func(string) string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := make([]bound, len(services))
	for i, s := range services {
		all[i] = bound{s.Name, s.Label, s.Tags, s.Credentials}
	}
	t, err := template.New(filepath.Base(file)).Option("missingkey=error").Funcs(functions(all, getenv)).
		Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, map[string]any{"Services": all}); err != nil {
		return nil, err
	}
	// The function index returns nothing for a key that does not exist.
	if bytes.Contains(out.Bytes(), []byte("<no value>")) {
		return nil, errors.New(`a value does not exist: use (service "NAME").Credential "KEY", which says which`)
	}
	return out.Bytes(), nil
}

// replace replaces a file atomically: readers see the old or the new content. It reports
// whether the content is different.
func replace(name string, content []byte, mode os.FileMode) (bool, error) {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, content) {
		return false, os.Chmod(name, mode)
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return false, err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return false, err
	}
	return true, nil
}
