package access

import (
	"context"
	"net/url"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
)

func listOrgs(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting orgs")
	return core.ListNames(ctx, s, "orgs", "/v3/organizations", url.Values{})
}

func listSpaces(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting spaces in org %s", s.Config.Org.Name)
	return core.ListNames(ctx, s, "spaces", "/v3/spaces", url.Values{"organization_guids": {s.Config.Org.GUID}})
}

func createOrg(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Creating org %s", w["ORG"])
	var org cfapi.Thing
	_, err := s.API.Post(ctx, "/v3/organizations", map[string]any{"name": w["ORG"]}, &org)
	if client.Says(err, "already exists") {
		return s.Exists("Org", "org", w["ORG"]), nil
	}
	if err != nil {
		return nil, err
	}
	s.OK()
	s.Say("Use '%s create-space SPACE -o %s' next.", s.Env.Program, w["ORG"])
	return &core.Made{Kind: "org", Name: org.Name, GUID: org.GUID, Existed: false}, nil
}

type createSpaceFlags struct {
	Org string `short:"o" value-name:"ORG" description:"Org (default: the targeted org)"`
}

func createSpace(ctx context.Context, s *core.Session, w core.Words, f *createSpaceFlags) (core.Result, error) {
	org, err := s.TargetOrg(ctx, f.Org)
	if err != nil {
		return nil, err
	}
	s.Acting("Creating space %s in org %s", w["SPACE"], org.Name)
	var space cfapi.Thing
	body := map[string]any{"name": w["SPACE"], "relationships": map[string]any{"organization": cfapi.Relate(org.GUID)}}
	_, err = s.API.Post(ctx, "/v3/spaces", body, &space)
	if client.Says(err, "must be unique per organization") {
		return s.Exists("Space", "space", w["SPACE"]), nil
	}
	if err != nil {
		return nil, err
	}
	if err := assignCreatorRoles(ctx, s, org.GUID, space.GUID); err != nil {
		return nil, err
	}
	s.OK()
	s.Say("Use '%s target -o %s -s %s' next.", s.Env.Program, org.Name, w["SPACE"])
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
		body := map[string]any{"type": role.kind,
			"relationships": map[string]any{"user": who, role.at: cfapi.Relate(role.guid)}}
		if _, err := s.API.Post(ctx, "/v3/roles", body, nil); err != nil && !client.Says(err, "already has") {
			return err
		}
	}
	return nil
}

func deleteOrg(ctx context.Context, s *core.Session, w core.Words, f *core.ForceOnlyFlag) (core.Result, error) {
	res, err := s.DeleteNamed(ctx, f.Force, "org", w["ORG"], "/v3/organizations", nil)
	if err == nil && s.Config.Org.Name == w["ORG"] {
		s.Config.Org, s.Config.Space = config.Named{}, config.Named{} // a deleted org or space cannot stay targeted
		err = s.Config.Save()
	}
	return res, err
}

type deleteSpaceFlags struct {
	Org   string `short:"o" value-name:"ORG" description:"Org (default: the targeted org)"`
	Force bool   `short:"f" description:"Do not ask for confirmation"`
}

func deleteSpace(ctx context.Context, s *core.Session, w core.Words, f *deleteSpaceFlags) (core.Result, error) {
	org, err := s.TargetOrg(ctx, f.Org)
	if err != nil {
		return nil, err
	}
	res, err := s.DeleteNamed(ctx, f.Force, "space", w["SPACE"], "/v3/spaces",
		url.Values{"organization_guids": {org.GUID}})
	if err == nil && s.Config.Org.GUID == org.GUID && s.Config.Space.Name == w["SPACE"] {
		s.Config.Space = config.Named{}
		err = s.Config.Save()
	}
	return res, err
}

func orgsCommands() []*core.Command {
	return core.InGroup(core.GroupOrgs,
		core.Entry("orgs", "", "List orgs", core.NeedsLogin, listOrgs, "").Alias("o"),
		core.Entry("spaces", "", "List the spaces in the target org", core.NeedsOrg, listSpaces, ""),
		core.Entry("create-org", "ORG", "Create an org", core.NeedsLogin, createOrg, "acme").Alias("co"),
		core.Entry("create-space", "SPACE [-o ORG]", "Create a space", core.NeedsLogin, createSpace, "shop -o acme").
			Alias("csp"),
		core.Entry("delete-org", "ORG [-f]", "Delete an org and everything in it", core.NeedsLogin, deleteOrg,
			"acme -f").Slow(),
		core.Entry("delete-space", "SPACE [-o ORG] [-f]", "Delete a space and everything in it", core.NeedsLogin, deleteSpace,
			"shop -o acme -f").Slow(),
	)
}
