package core

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/suggest"
	"ingot/internal/cli/client"
)

// Named finds a resource by name. If it does not exist, the error lists the
// existing names.
func Named[T interface{ Title() string }](
	ctx context.Context, s *Session, kind, path, name string, q url.Values,
) (T, error) {
	var none T
	asked := url.Values{"names": {name}}
	maps.Copy(asked, q)
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
		names = append(names, one.Title())
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
func (s *Session) App(ctx context.Context, name string) (cfapi.App, error) {
	return Named[cfapi.App](ctx, s, "App", "/v3/apps", name, s.InSpace())
}

// Thing finds a resource by its name.
func (s *Session) Thing(ctx context.Context, kind, path, name string, q url.Values) (cfapi.Thing, error) {
	return Named[cfapi.Thing](ctx, s, kind, path, name, q)
}

// TargetOrg returns the named org; the targeted one without a name.
func (s *Session) TargetOrg(ctx context.Context, name string) (cfapi.Thing, error) {
	if name != "" {
		return s.Org(ctx, name)
	}
	return cfapi.Thing{GUID: s.Config.Org.GUID, Name: s.Config.Org.Name}, s.Check(NeedsOrg)
}

// TargetSpace returns the named space of the named org; the targeted ones without names.
func (s *Session) TargetSpace(ctx context.Context, org, space string) (o, sp cfapi.Thing, err error) {
	if o, err = s.TargetOrg(ctx, org); err != nil {
		return o, sp, err
	}
	if space == "" {
		return o, cfapi.Thing{GUID: s.Config.Space.GUID, Name: s.Config.Space.Name}, s.Check(NeedsSpace)
	}
	sp, err = s.SpaceOf(ctx, o, space)
	return o, sp, err
}

// AppPair returns the app SOURCE, and the app DESTINATION of the named space or the targeted
// one.
func (s *Session) AppPair(ctx context.Context, w Words, org, space string) (from, to cfapi.App, err error) {
	if from, err = s.App(ctx, w["SOURCE"]); err != nil {
		return from, to, err
	}
	_, in, err := s.TargetSpace(ctx, org, space)
	if err != nil {
		return from, to, err
	}
	to, err = Named[cfapi.App](ctx, s, "App", "/v3/apps", w["DESTINATION"], url.Values{"space_guids": {in.GUID}})
	return from, to, err
}

// Org finds an org.
func (s *Session) Org(ctx context.Context, name string) (cfapi.Thing, error) {
	return Named[cfapi.Thing](ctx, s, "Org", "/v3/organizations", name, nil)
}

// Space finds a space of the targeted org.
func (s *Session) Space(ctx context.Context, name string) (cfapi.Thing, error) {
	return s.SpaceOf(ctx, cfapi.Thing{GUID: s.Config.Org.GUID}, name)
}

// SpaceOf finds a space of an org.
func (s *Session) SpaceOf(ctx context.Context, org cfapi.Thing, name string) (cfapi.Thing, error) {
	return Named[cfapi.Thing](ctx, s, "Space", "/v3/spaces", name, url.Values{"organization_guids": {org.GUID}})
}

// Domain finds a domain.
func (s *Session) Domain(ctx context.Context, name string) (cfapi.Thing, error) {
	return Named[cfapi.Thing](ctx, s, "Domain", "/v3/domains", name, nil)
}

// ServiceInstance finds a service instance in the targeted space.
func (s *Session) ServiceInstance(ctx context.Context, name string) (cfapi.ServiceInstance, error) {
	i, err := Named[cfapi.ServiceInstance](ctx, s, "Service instance", "/v3/service_instances", name, s.InSpace())
	return i, NoServices(s, err)
}

// NoServices explains an error of an API without services.
func NoServices(s *Session, err error) error {
	if client.Status(err) == 404 {
		return &Problem{What: "This platform does not support services.",
			Why: fmt.Sprintf("the API at %s (version %s) has no service offerings", s.Config.API, s.Config.APIVersion), Err: err}
	}
	return err
}
