package core

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"ingot/internal/base/suggest"
	"ingot/internal/cli/client"
)

// Named finds a resource by name. If it does not exist, the error lists the
// existing names.
func Named[T any](ctx context.Context, s *Session, kind, path, name string, q url.Values,
	nameOf func(T) string) (T, error) {
	var none T
	asked := url.Values{"names": {name}}
	for key, value := range q {
		asked[key] = value
	}
	found, err := client.List[T](ctx, s.API, path, asked)
	if err != nil {
		return none, err
	}
	if len(found) > 0 {
		return found[0], nil
	}
	p := &Problem{What: fmt.Sprintf("%s '%s' not found.", kind, name), Err: ErrNotFound}
	all, err := client.List[T](ctx, s.API, path, q)
	if err != nil {
		return none, p
	}
	var names []string
	for _, one := range all {
		names = append(names, nameOf(one))
	}
	slices.Sort(names)
	near := suggest.Closest(name, names)
	switch {
	case near != "":
		p.Try = fmt.Sprintf("did you mean '%s'?", near)
	case len(names) == 0:
		p.Why = "none exist yet"
	default:
		p.Existing = Existing(kind, names)
	}
	return none, p
}

// App finds an app in the targeted space.
func (s *Session) App(ctx context.Context, name string) (client.App, error) {
	return Named(ctx, s, "App", "/v3/apps", name, s.InSpace(), func(a client.App) string { return a.Name })
}

// Thing finds a resource by its name.
func (s *Session) Thing(ctx context.Context, kind, path, name string, q url.Values) (client.Thing, error) {
	return Named(ctx, s, kind, path, name, q, func(t client.Thing) string { return t.Name })
}

// targetOrg returns the named org; the targeted one without a name.
func (s *Session) targetOrg(ctx context.Context, name string) (client.Thing, error) {
	if name != "" {
		return s.Org(ctx, name)
	}
	return client.Thing{GUID: s.Config.Org.GUID, Name: s.Config.Org.Name}, s.Check(NeedsOrg)
}

// TargetSpace returns the named space of the named org; the targeted ones without names.
func (s *Session) TargetSpace(ctx context.Context, org, space string) (o, sp client.Thing, err error) {
	if o, err = s.targetOrg(ctx, org); err != nil {
		return o, sp, err
	}
	if space == "" {
		return o, client.Thing{GUID: s.Config.Space.GUID, Name: s.Config.Space.Name}, s.Check(NeedsSpace)
	}
	sp, err = s.SpaceOf(ctx, o, space)
	return o, sp, err
}

// AppPair returns the app SOURCE, and the app DESTINATION of the named space or the targeted
// one.
func (s *Session) AppPair(ctx context.Context, w Words, org, space string) (from, to client.App, err error) {
	if from, err = s.App(ctx, w["SOURCE"]); err != nil {
		return from, to, err
	}
	_, in, err := s.TargetSpace(ctx, org, space)
	if err != nil {
		return from, to, err
	}
	to, err = Named(ctx, s, "App", "/v3/apps", w["DESTINATION"], url.Values{"space_guids": {in.GUID}},
		func(a client.App) string { return a.Name })
	return from, to, err
}

// Org finds an org.
func (s *Session) Org(ctx context.Context, name string) (client.Thing, error) {
	return Named(ctx, s, "Org", "/v3/organizations", name, nil, func(t client.Thing) string { return t.Name })
}

// SpaceOf finds a space of an org.
func (s *Session) SpaceOf(ctx context.Context, org client.Thing, name string) (client.Thing, error) {
	return Named(ctx, s, "Space", "/v3/spaces", name, url.Values{"organization_guids": {org.GUID}},
		func(t client.Thing) string { return t.Name })
}

// Domain finds a domain.
func (s *Session) Domain(ctx context.Context, name string) (client.Thing, error) {
	return Named(ctx, s, "Domain", "/v3/domains", name, nil, func(t client.Thing) string { return t.Name })
}

// ServiceInstance finds a service instance in the targeted space.
func (s *Session) ServiceInstance(ctx context.Context, name string) (client.ServiceInstance, error) {
	return Named(ctx, s, "Service instance", "/v3/service_instances", name, s.InSpace(),
		func(i client.ServiceInstance) string { return i.Name })
}

// NoServices explains an error of an API without services.
func NoServices(s *Session, err error) error {
	if client.Status(err) == 404 {
		return &Problem{What: "This platform does not support services.",
			Why: fmt.Sprintf("the API at %s (version %s) has no service offerings", s.Config.API, s.Config.APIVersion), Err: err}
	}
	return err
}
