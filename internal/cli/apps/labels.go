package apps

import (
	"context"
	"fmt"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// labelled returns the API path of a resource that can have labels.
func labelled(ctx context.Context, s *core.Session, kind, name string) (path string, err error) {
	var t client.Thing
	switch kind {
	case "app":
		var app client.App
		app, err = s.App(ctx, name)
		t, path = app.Thing, "/v3/apps/"
	case "org":
		t, err = s.Org(ctx, name)
		path = "/v3/organizations/"
	case "space":
		if err := s.Check(core.NeedsOrg); err != nil {
			return "", err
		}
		t, err = s.SpaceOf(ctx, client.Thing{GUID: s.Config.Org.GUID}, name)
		path = "/v3/spaces/"
	case "service-instance":
		var i client.ServiceInstance
		i, err = s.ServiceInstance(ctx, name)
		t, path = i.Thing, "/v3/service_instances/"
	case "domain":
		t, err = s.Domain(ctx, name)
		path = "/v3/domains/"
	default:
		return "",
			core.UsageError(fmt.Sprintf(
				"%q is not a resource type with labels. Valid types: app, org, space, service-instance, domain", kind))
	}
	return path + t.GUID, err
}

// labels are the labels of a resource.
type labels struct {
	Labels map[string]string `json:"labels"`
}

// MarshalJSON writes an empty object rather than null.
func (l *labels) MarshalJSON() ([]byte, error) {
	all := l.Labels
	if all == nil {
		all = map[string]string{}
	}
	return core.Marshal(map[string]any{"labels": all})
}

func (l *labels) Show(p *term.Printer) {
	if len(l.Labels) == 0 {
		p.Println("No labels found.")
		return
	}
	t := term.Table{Heading: []string{"key", "value"}}
	for _, key := range core.SortedKeys(l.Labels) {
		t.Rows = append(t.Rows, []term.Cell{{Text: key, Paint: p.Bold}, {Text: l.Labels[key]}})
	}
	p.Println("")
	p.Table(t)
}

type labelsFlags struct {
	Args struct {
		Kind string `positional-arg-name:"KIND" required:"yes"`
		Name string `positional-arg-name:"NAME" required:"yes"`
	} `positional-args:"yes"`
}

func showLabels(ctx context.Context, s *core.Session, _ core.Words, f *labelsFlags) (core.Result, error) {
	s.Doing("Getting labels of %s %s", f.Args.Kind, f.Args.Name)
	path, err := labelled(ctx, s, f.Args.Kind, f.Args.Name)
	if err != nil {
		return nil, err
	}
	var thing struct {
		Metadata labels `json:"metadata"`
	}
	if err := s.API.Get(ctx, path, nil, &thing); err != nil {
		return nil, err
	}
	return &thing.Metadata, nil
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
	var thing struct {
		Metadata labels `json:"metadata"`
	}
	if _, err := s.API.Patch(ctx, path, map[string]any{"metadata": map[string]any{"labels": change}}, &thing); err != nil {
		return nil, err
	}
	s.OK()
	return s.JSONOnly(&thing.Metadata), nil
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
