package cli

import (
	"context"
	"net/url"

	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/term"
)

// names is a list of resources that are shown by name only.
type names struct {
	kind string
	list []config.Named
}

func (n *names) MarshalJSON() ([]byte, error) { return marshal(map[string]any{n.kind: n.list}) }

func (n *names) show(p *term.Printer) {
	if len(n.list) == 0 {
		p.Println("No " + n.kind + " found.")
		return
	}
	p.Println("")
	p.Println("name")
	for _, one := range n.list {
		p.Println(p.Bold(one.Name))
	}
}

func listNames(ctx context.Context, s *session, kind, path string, q url.Values) (result, error) {
	q.Set("order_by", "name")
	things, err := client.List[client.Thing](ctx, s.api, path, q)
	if err != nil {
		return nil, err
	}
	n := &names{kind, []config.Named{}}
	for _, t := range things {
		n.list = append(n.list, config.Named{GUID: t.GUID, Name: t.Name})
	}
	return n, nil
}

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

// made is a resource that was created or already existed.
type made struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	GUID    string `json:"guid,omitempty"`
	Existed bool   `json:"existed"`
}

func (m *made) show(*term.Printer) {}

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
