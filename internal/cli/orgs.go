package cli

import (
	"context"
	"net/url"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
)

type orgsCommand struct{}

func (c *orgsCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Getting orgs as %s...", s.out.Bold(s.api.User().Name()))
	return listNames(ctx, s, "orgs", "/v3/organizations", url.Values{})
}

type spacesCommand struct{}

func (c *spacesCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Getting spaces in org %s as %s...", s.out.Bold(s.cfg.Org.Name), s.out.Bold(s.api.User().Name()))
	return listNames(ctx, s, "spaces", "/v3/spaces", url.Values{"organization_guids": {s.cfg.Org.GUID}})
}

type createOrgCommand struct {
	Args struct {
		Org string `positional-arg-name:"ORG" required:"yes"`
	} `positional-args:"yes"`
}

func (c *createOrgCommand) run(ctx context.Context, s *session) (result, error) {
	s.say("Creating org %s as %s...", s.out.Bold(c.Args.Org), s.out.Bold(s.api.User().Name()))
	var org client.Thing
	_, err := s.api.Post(ctx, "/v3/organizations", map[string]any{"name": c.Args.Org}, &org)
	if client.Says(err, "already exists") {
		s.say("Org %s already exists.", c.Args.Org)
		s.ok()
		return &made{"org", c.Args.Org, "", true}, nil
	}
	if err != nil {
		return nil, err
	}
	s.ok()
	s.say("Use '%s create-space SPACE -o %s' next.", s.w.Program, c.Args.Org)
	return &made{"org", org.Name, org.GUID, false}, nil
}

type createSpaceCommand struct {
	Org  string `short:"o" value-name:"ORG" description:"Org (default: the targeted org)"`
	Args struct {
		Space string `positional-arg-name:"SPACE" required:"yes"`
	} `positional-args:"yes"`
}

func (c *createSpaceCommand) run(ctx context.Context, s *session) (result, error) {
	org := s.cfg.Org
	if c.Org != "" {
		o, err := named(ctx, s, "Org", "/v3/organizations", c.Org, nil, func(t client.Thing) string { return t.Name })
		if err != nil {
			return nil, err
		}
		org = config.Named{GUID: o.GUID, Name: o.Name}
	}
	if org.GUID == "" {
		return nil, s.check(anOrg)
	}
	s.say("Creating space %s in org %s as %s...", s.out.Bold(c.Args.Space), s.out.Bold(org.Name), s.out.Bold(s.api.User().Name()))
	var space client.Thing
	body := map[string]any{"name": c.Args.Space, "relationships": map[string]any{"organization": client.Relate(org.GUID)}}
	_, err := s.api.Post(ctx, "/v3/spaces", body, &space)
	if client.Says(err, "must be unique per organization") {
		s.say("Space %s already exists.", c.Args.Space)
		s.ok()
		return &made{"space", c.Args.Space, "", true}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := s.assignCreatorRoles(ctx, org.GUID, space.GUID); err != nil {
		return nil, err
	}
	s.ok()
	s.say("Use '%s target -o %s -s %s' next.", s.w.Program, org.Name, c.Args.Space)
	return &made{"space", space.Name, space.GUID, false}, nil
}

// assignCreatorRoles gives the creator of a space the roles to work in it.
func (s *session) assignCreatorRoles(ctx context.Context, org, space string) error {
	user := s.api.User()
	if user.UserName == "" {
		return nil // a client cannot be given roles by user name
	}
	who := map[string]any{"data": map[string]string{"username": user.UserName, "origin": user.Origin}}
	for _, role := range []struct{ kind, at, guid string }{
		{"organization_user", "organization", org}, {"space_manager", "space", space}, {"space_developer", "space", space},
	} {
		body := map[string]any{"type": role.kind, "relationships": map[string]any{"user": who, role.at: client.Relate(role.guid)}}
		if _, err := s.api.Post(ctx, "/v3/roles", body, nil); err != nil && !client.Says(err, "already has") {
			return err
		}
	}
	return nil
}

type deleteOrgCommand struct {
	Force bool `short:"f" description:"Do not ask for confirmation"`
	Args  struct {
		Org string `positional-arg-name:"ORG" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteOrgCommand) run(ctx context.Context, s *session) (result, error) {
	res, err := s.deleteNamed(ctx, c.Force, "org", c.Args.Org, "/v3/organizations", nil)
	if err == nil && s.cfg.Org.Name == c.Args.Org {
		s.cfg.Org, s.cfg.Space = config.Named{}, config.Named{} // a deleted org or space cannot stay targeted
		err = s.cfg.Save()
	}
	return res, err
}

type deleteSpaceCommand struct {
	Org   string `short:"o" value-name:"ORG" description:"Org (default: the targeted org)"`
	Force bool   `short:"f" description:"Do not ask for confirmation"`
	Args  struct {
		Space string `positional-arg-name:"SPACE" required:"yes"`
	} `positional-args:"yes"`
}

func (c *deleteSpaceCommand) run(ctx context.Context, s *session) (result, error) {
	org := client.Thing{GUID: s.cfg.Org.GUID, Name: s.cfg.Org.Name}
	var err error
	if c.Org != "" {
		if org, err = s.org(ctx, c.Org); err != nil {
			return nil, err
		}
	}
	if org.GUID == "" {
		return nil, s.check(anOrg)
	}
	res, err := s.deleteNamed(ctx, c.Force, "space", c.Args.Space, "/v3/spaces", url.Values{"organization_guids": {org.GUID}})
	if err == nil && s.cfg.Org.GUID == org.GUID && s.cfg.Space.Name == c.Args.Space {
		s.cfg.Space = config.Named{}
		err = s.cfg.Save()
	}
	return res, err
}
