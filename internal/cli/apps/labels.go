package apps

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strings"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// labelled returns the API path of a resource that can have labels.
func labelled(ctx context.Context, s *core.Session, kind, name string) (string, error) {
	in := url.Values{"organization_guids": {s.Config.Org.GUID}}
	all := map[string]struct {
		what, path string
		q          url.Values
	}{
		"app": {"App", "/v3/apps", s.InSpace()}, "org": {"Org", "/v3/organizations", nil},
		"space": {"Space", "/v3/spaces", in}, "domain": {"Domain", "/v3/domains", nil},
		"service-instance": {"Service instance", "/v3/service_instances", s.InSpace()},
	}
	of, ok := all[kind]
	if !ok {
		return "", core.UsageError(fmt.Sprintf("%q is not a resource type with labels. Valid types: app, org, space, "+
			"service-instance, domain", kind))
	}
	if kind == "space" {
		if err := s.Check(core.NeedsOrg); err != nil {
			return "", err
		}
	}
	t, err := s.Thing(ctx, of.what, of.path, name, of.q)
	return of.path + "/" + t.GUID, err
}

// labels are the labels of a resource.
type labels struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// MarshalJSON writes an empty object rather than null.
func (l *labels) MarshalJSON() ([]byte, error) {
	all := map[string]string{}
	maps.Copy(all, l.Metadata.Labels)
	return core.Marshal(map[string]any{"labels": all})
}

func (l *labels) Show(p *term.Printer) {
	(&core.Listing[string]{
		Key: "labels", Heading: []string{"key", "value"}, Rows: core.SortedKeys(l.Metadata.Labels),
		Cells: func(key string) []string { return []string{key, l.Metadata.Labels[key]} },
	}).Show(p)
}

func showLabels(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Getting labels of %s %s", w["KIND"], w["NAME"])
	path, err := labelled(ctx, s, w["KIND"], w["NAME"])
	if err != nil {
		return nil, err
	}
	var of labels
	if err := s.API.Get(ctx, path, nil, &of); err != nil {
		return nil, err
	}
	return &of, nil
}

type setLabelFlags struct {
	Args struct {
		Kind   string   `positional-arg-name:"KIND" required:"yes"`
		Name   string   `positional-arg-name:"NAME" required:"yes"`
		Labels []string `positional-arg-name:"KEY=VALUE" required:"1"`
	} `positional-args:"yes"`
}

func setLabels(ctx context.Context, s *core.Session, _ core.Words, f *setLabelFlags) (core.Result, error) {
	change := map[string]*string{}
	for _, one := range f.Args.Labels {
		key, value, ok := strings.Cut(one, "=")
		if !ok || key == "" {
			return nil, core.UsageError(fmt.Sprintf("%q is not KEY=VALUE", one))
		}
		change[key] = &value
	}
	return changeLabels(ctx, s, "Setting", f.Args.Kind, f.Args.Name, change)
}

type unsetLabelFlags struct {
	Args struct {
		Kind   string   `positional-arg-name:"KIND" required:"yes"`
		Name   string   `positional-arg-name:"NAME" required:"yes"`
		Labels []string `positional-arg-name:"KEY" required:"1"`
	} `positional-args:"yes"`
}

func unsetLabels(ctx context.Context, s *core.Session, _ core.Words, f *unsetLabelFlags) (core.Result, error) {
	change := map[string]*string{}
	for _, key := range f.Args.Labels {
		change[key] = nil
	}
	return changeLabels(ctx, s, "Removing", f.Args.Kind, f.Args.Name, change)
}

func changeLabels(ctx context.Context, s *core.Session, verb, kind, name string,
	change map[string]*string) (core.Result, error) {
	s.Doing(verb+" labels of %s %s", kind, name)
	path, err := labelled(ctx, s, kind, name)
	if err != nil {
		return nil, err
	}
	var of labels
	body := map[string]any{"metadata": map[string]any{"labels": change}}
	if _, err := s.API.Patch(ctx, path, body, &of); err != nil {
		return nil, err
	}
	s.OK()
	return s.JSONOnly(&of), nil
}

func labelsCommands() []*core.Command {
	return core.InGroup(core.GroupInspect,
		core.Entry("labels", "KIND NAME", "List a resource's labels", core.NeedsLogin, showLabels, "app my-app").
			Explained("KIND is app, org, space, service-instance or domain."),
		core.Entry("set-label", "KIND NAME KEY=VALUE...", "Set labels on a resource", core.NeedsLogin, setLabels,
			"space dev notifications=on").
			Explained("KIND is app, org, space, service-instance or domain."),
		core.Entry("unset-label", "KIND NAME KEY...", "Remove labels from a resource", core.NeedsLogin, unsetLabels,
			"space dev notifications"),
	)
}
