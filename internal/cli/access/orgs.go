package access

import (
	"context"
	"net/url"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
)

type orgsCommand struct{}

func (c *orgsCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Say("Getting orgs as %s...", s.Out.Bold(s.API.User().Name()))
	return core.ListNames(ctx, s, "orgs", "/v3/organizations", url.Values{})
}

type spacesCommand struct{}

func (c *spacesCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Say("Getting spaces in org %s as %s...", s.Out.Bold(s.Config.Org.Name), s.Out.Bold(s.API.User().Name()))
	return core.ListNames(ctx, s, "spaces", "/v3/spaces", url.Values{"organization_guids": {s.Config.Org.GUID}})
}

type createOrgCommand struct {
	Args struct {
		Org string `positional-arg-name:"ORG" required:"yes"`
	} `positional-args:"yes"`
}

func (c *createOrgCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Say("Creating org %s as %s...", s.Out.Bold(c.Args.Org), s.Out.Bold(s.API.User().Name()))
	var org client.Thing
	_, err := s.API.Post(ctx, "/v3/organizations", map[string]any{"name": c.Args.Org}, &org)
	if client.Says(err, "already exists") {
		s.Say("Org %s already exists.", c.Args.Org)
		s.OK()
		return &core.Made{Kind: "org", Name: c.Args.Org, GUID: "", Existed: true}, nil
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	s.Say("Use '%s create-space SPACE -o %s' next.", s.Env.Program, c.Args.Org)
	return &core.Made{Kind: "org", Name: org.Name, GUID: org.GUID, Existed: false}, nil
}

type createSpaceCommand struct {
	Org  string `short:"o" value-name:"ORG" description:"Org (default: the targeted org)"`
	Args struct {
		Space string `positional-arg-name:"SPACE" required:"yes"`
	} `positional-args:"yes"`
}

func (c *createSpaceCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	org := s.Config.Org
	if c.Org != "" {
		o, err := core.Named(ctx, s, "Org", "/v3/organizations", c.Org, nil, func(t client.Thing) string { return t.Name })
		if err != nil {
			return nil, err
		}
		org = config.Named{GUID: o.GUID, Name: o.Name}
	}
	if org.GUID == "" {
		return nil, s.Check(core.NeedsOrg)
	}
	s.Say("Creating space %s in org %s as %s...", s.Out.Bold(c.Args.Space), s.Out.Bold(org.Name), s.Out.Bold(s.API.User().Name()))
	var space client.Thing
	body := map[string]any{"name": c.Args.Space, "relationships": map[string]any{"organization": client.Relate(org.GUID)}}
	_, err := s.API.Post(ctx, "/v3/spaces", body, &space)
	if client.Says(err, "must be unique per organization") {
		s.Say("Space %s already exists.", c.Args.Space)
		s.OK()
		return &core.Made{Kind: "space", Name: c.Args.Space, GUID: "", Existed: true}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := assignCreatorRoles(ctx, s, org.GUID, space.GUID); err != nil {
		return nil, err
	}
	s.OK()
	s.Say("Use '%s target -o %s -s %s' next.", s.Env.Program, org.Name, c.Args.Space)
	return &core.Made{Kind: "space", Name: space.Name, GUID: space.GUID, Existed: false}, nil
}

// assignCreatorRoles gives the creator of a space the roles to work in it.
func assignCreatorRoles(ctx context.Context, s *core.Session, org, space string) error {
	user := s.API.User()
	if user.UserName == "" {
		return nil // a client cannot be given roles by user name
	}
	who := map[string]any{"data": map[string]string{"username": user.UserName, "origin": user.Origin}}
	for _, role := range []struct{ kind, at, guid string }{
		{"organization_user", "organization", org}, {"space_manager", "space", space}, {"space_developer", "space", space},
	} {
		body := map[string]any{"type": role.kind, "relationships": map[string]any{"user": who, role.at: client.Relate(role.guid)}}
		if _, err := s.API.Post(ctx, "/v3/roles", body, nil); err != nil && !client.Says(err, "already has") {
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

func (c *deleteOrgCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	res, err := s.DeleteNamed(ctx, c.Force, "org", c.Args.Org, "/v3/organizations", nil)
	if err == nil && s.Config.Org.Name == c.Args.Org {
		s.Config.Org, s.Config.Space = config.Named{}, config.Named{} // a deleted org or space cannot stay targeted
		err = s.Config.Save()
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

func (c *deleteSpaceCommand) Run(ctx context.Context, s *core.Session) (core.Result, error) {
	org := client.Thing{GUID: s.Config.Org.GUID, Name: s.Config.Org.Name}
	var err error
	if c.Org != "" {
		if org, err = s.Org(ctx, c.Org); err != nil {
			return nil, err
		}
	}
	if org.GUID == "" {
		return nil, s.Check(core.NeedsOrg)
	}
	res, err := s.DeleteNamed(ctx, c.Force, "space", c.Args.Space, "/v3/spaces", url.Values{"organization_guids": {org.GUID}})
	if err == nil && s.Config.Org.GUID == org.GUID && s.Config.Space.Name == c.Args.Space {
		s.Config.Space = config.Named{}
		err = s.Config.Save()
	}
	return res, err
}
