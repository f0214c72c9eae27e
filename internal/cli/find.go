package cli

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"ingot/internal/base/suggest"
	"ingot/internal/cli/client"
)

// named finds a resource by name. If it does not exist, the error lists the
// existing names.
func named[T any](ctx context.Context, s *session, kind, path, name string, q url.Values, nameOf func(T) string) (T, error) {
	var none T
	asked := url.Values{"names": {name}}
	for key, value := range q {
		asked[key] = value
	}
	found, err := client.List[T](ctx, s.api, path, asked)
	if err != nil {
		return none, err
	}
	if len(found) > 0 {
		return found[0], nil
	}
	p := &problem{What: fmt.Sprintf("%s '%s' not found.", kind, name), cause: errNotFound}
	all, err := client.List[T](ctx, s.api, path, q)
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
		p.Existing = existing(kind, names)
	}
	return none, p
}

// app finds an app in the targeted space.
func (s *session) app(ctx context.Context, name string) (client.App, error) {
	return named(ctx, s, "App", "/v3/apps", name, s.in(), func(a client.App) string { return a.Name })
}

// thing finds a resource by its name.
func (s *session) thing(ctx context.Context, kind, path, name string, q url.Values) (client.Thing, error) {
	return named(ctx, s, kind, path, name, q, func(t client.Thing) string { return t.Name })
}

// targetOrg returns the named org; the targeted one without a name.
func (s *session) targetOrg(ctx context.Context, name string) (client.Thing, error) {
	if name != "" {
		return s.org(ctx, name)
	}
	return client.Thing{GUID: s.cfg.Org.GUID, Name: s.cfg.Org.Name}, s.check(anOrg)
}

// targetSpace returns the named space of the named org; the targeted ones without names.
func (s *session) targetSpace(ctx context.Context, org, space string) (o, sp client.Thing, err error) {
	if o, err = s.targetOrg(ctx, org); err != nil {
		return o, sp, err
	}
	if space == "" {
		return o, client.Thing{GUID: s.cfg.Space.GUID, Name: s.cfg.Space.Name}, s.check(aSpace)
	}
	sp, err = s.spaceOf(ctx, o, space)
	return o, sp, err
}

// appPair returns the app SOURCE, and the app DESTINATION of the named space or the targeted
// one.
func (s *session) appPair(ctx context.Context, w words, org, space string) (from, to client.App, err error) {
	if from, err = s.app(ctx, w["SOURCE"]); err != nil {
		return from, to, err
	}
	_, in, err := s.targetSpace(ctx, org, space)
	if err != nil {
		return from, to, err
	}
	to, err = named(ctx, s, "App", "/v3/apps", w["DESTINATION"], url.Values{"space_guids": {in.GUID}}, func(a client.App) string { return a.Name })
	return from, to, err
}

// org finds an org.
func (s *session) org(ctx context.Context, name string) (client.Thing, error) {
	return named(ctx, s, "Org", "/v3/organizations", name, nil, func(t client.Thing) string { return t.Name })
}

// spaceOf finds a space of an org.
func (s *session) spaceOf(ctx context.Context, org client.Thing, name string) (client.Thing, error) {
	return named(ctx, s, "Space", "/v3/spaces", name, url.Values{"organization_guids": {org.GUID}}, func(t client.Thing) string { return t.Name })
}

// domain finds a domain.
func (s *session) domain(ctx context.Context, name string) (client.Thing, error) {
	return named(ctx, s, "Domain", "/v3/domains", name, nil, func(t client.Thing) string { return t.Name })
}

// instance finds a service instance in the targeted space.
func (s *session) instance(ctx context.Context, name string) (client.ServiceInstance, error) {
	return named(ctx, s, "Service instance", "/v3/service_instances", name, s.in(), func(i client.ServiceInstance) string { return i.Name })
}

// noServices explains an error of an API without services.
func noServices(s *session, err error) error {
	if client.Status(err) == 404 {
		return &problem{What: "This platform does not support services.", Why: fmt.Sprintf("the API at %s (version %s) has no service offerings", s.cfg.API, s.cfg.APIVersion), cause: err}
	}
	return err
}
