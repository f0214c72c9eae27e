package access

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/client"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// role is one of the platform's roles: its name in commands, its name in the API
// and its title in tables.
type role struct{ word, kind, title string }

var (
	orgRoles = []role{
		{"OrgManager", "organization_manager", "ORG MANAGER"}, {"BillingManager", "organization_billing_manager",
			"BILLING MANAGER"},
		{"OrgAuditor", "organization_auditor", "ORG AUDITOR"}, {"OrgUser", "organization_user", "ORG USER"},
	}
	spaceRoles = []role{
		{"SpaceManager", "space_manager", "SPACE MANAGER"}, {"SpaceDeveloper", "space_developer", "SPACE DEVELOPER"},
		{"SpaceSupporter", "space_supporter", "SPACE SUPPORTER"}, {"SpaceAuditor", "space_auditor", "SPACE AUDITOR"},
	}
)

// rolesIn returns the roles that users can have in a space, or in an org.
func rolesIn(space bool) []role {
	if space {
		return spaceRoles
	}
	return orgRoles
}

func findRole(all []role, word string) (role, error) {
	var words []string
	for _, r := range all {
		if strings.EqualFold(r.word, word) {
			return r, nil
		}
		words = append(words, r.word)
	}
	return role{}, core.UsageError(fmt.Sprintf("%q is not a valid role. Valid roles: %s", word, strings.Join(words, ", ")))
}

// roleChange is a role that was assigned to a user or removed.
type roleChange struct {
	User  string `json:"user"`
	Role  string `json:"role"`
	Org   string `json:"org"`
	Space string `json:"space,omitempty"`
	Given bool   `json:"given"`
}

func (*roleChange) Show(*term.Printer) {}

// roleFlags identify the user.
type roleFlags struct {
	Origin string `long:"origin" value-name:"ORIGIN" description:"Identity provider of the user, if several have the name"`
	Client bool   `long:"client" description:"USER is a client id"`
}

func (f roleFlags) user(user string) map[string]any {
	data := map[string]string{"username": user}
	if f.Client {
		data = map[string]string{"guid": user}
	} else if f.Origin != "" {
		data["origin"] = f.Origin
	}
	return map[string]any{"data": data}
}

func (f roleFlags) assign(ctx context.Context, s *core.Session, user, kind string, in cfapi.Thing) error {
	body := map[string]any{"type": kind, "relationships": map[string]any{
		"user": f.user(user), placeOfRole(kind): cfapi.Relate(in.GUID)}}
	_, err := s.API.Post(ctx, "/v3/roles", body, nil)
	if client.Says(err, "already has") {
		return nil // already assigned
	}
	return err
}

// placeOfRole returns what a role is in: an organization or a space.
func placeOfRole(kind string) string {
	at, _, _ := strings.Cut(kind, "_")
	return at
}

// remove removes a role and reports whether the user had it.
func (f roleFlags) remove(ctx context.Context, s *core.Session, user, kind string, in cfapi.Thing) (bool, error) {
	id := user
	if !f.Client {
		q := url.Values{"usernames": {user}}
		if f.Origin != "" {
			q.Set("origins", f.Origin)
		}
		found, err := client.List[cfapi.Thing](ctx, s.API, "/v3/users", q)
		if err != nil {
			return false, err
		}
		switch {
		case len(found) == 0:
			return false, &core.Problem{What: "User '" + user + "' not found.",
				Try: fmt.Sprintf("'%[1]s org-users ORG', '%[1]s space-users ORG SPACE' list them", s.Env.Program),
				Err: core.ErrNotFound}
		case len(found) > 1:
			return false, &core.Problem{What: "Several users are named " + user + ".", Why: "they have different origins",
				Try: "name one with --origin"}
		}
		id = found[0].GUID
	}
	roles, err := client.List[cfapi.Thing](ctx, s.API, "/v3/roles", url.Values{"types": {kind}, "user_guids": {id},
		placeOfRole(kind) + "_guids": {in.GUID}})
	if err != nil || len(roles) == 0 {
		return false, err
	}
	return true, s.API.Delete(ctx, "/v3/roles/"+roles[0].GUID)
}

// changeRole assigns a role in an org or a space to a user, or removes it.
func changeRole(give bool) core.Action[roleFlags] {
	return func(ctx context.Context, s *core.Session, w core.Words, f *roleFlags) (core.Result, error) {
		_, inSpace := w["SPACE"]
		r, err := findRole(rolesIn(inSpace), w["ROLE"])
		if err != nil {
			return nil, err
		}
		org, space, err := placeOf(ctx, s, w)
		if err != nil {
			return nil, err
		}
		text, in, had := "Removing role %s from user %s in %s as %s...", org, true
		if give {
			text = "Assigning role %s to user %s in %s as %s..."
		}
		s.Say(text, r.word, s.Out.Bold(w["USER"]), place(s, org.Name, space.Name), s.Out.Bold(s.API.User().Name()))
		if inSpace {
			in = space
		}
		if give && inSpace { // a space role requires membership in the org
			err = f.assign(ctx, s, w["USER"], "organization_user", org)
		}
		if give && err == nil {
			err = f.assign(ctx, s, w["USER"], r.kind, in)
		} else if !give {
			had, err = f.remove(ctx, s, w["USER"], r.kind, in)
		}
		if err != nil {
			return nil, err
		}
		if !had {
			s.Say("User %s does not have this role.", w["USER"])
		}
		s.OK()
		return &roleChange{w["USER"], r.word, org.Name, space.Name, give}, nil
	}
}

// placeOf finds the org ORG, and the space SPACE of a command that has one.
func placeOf(ctx context.Context, s *core.Session, w core.Words) (org, space cfapi.Thing, err error) {
	org, err = s.Org(ctx, w["ORG"])
	if name, ok := w["SPACE"]; ok && err == nil {
		space, err = s.SpaceOf(ctx, org, name)
	}
	return org, space, err
}

// place names an org, and a space unless it is empty.
func place(s *core.Session, org, space string) string {
	if space == "" {
		return "org " + s.Out.Bold(org)
	}
	return "org " + s.Out.Bold(org) + " / space " + s.Out.Bold(space)
}

// members are the users of an org or a space, by role.
type members struct {
	Where config.Named   `json:"in"`
	Roles []memberOfRole `json:"roles"`
}

type memberOfRole struct {
	Role  string       `json:"role"`
	Users []roleHolder `json:"users"`
	title string
}

type roleHolder struct {
	GUID   string `json:"guid"`
	Name   string `json:"name"`
	Origin string `json:"origin"`
}

func (m *members) Show(p *term.Printer) {
	for _, r := range m.Roles {
		p.Println("")
		p.Println(p.Bold(r.title))
		if len(r.Users) == 0 {
			p.Println("  No users found")
		}
		for _, u := range r.Users {
			p.Println("  " + strings.TrimSpace(u.Name+" "+p.Dim("("+cmp.Or(u.Origin, "client")+")")))
		}
	}
}

// listUsers lists the users of an org or a space by role.
func listUsers(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Say("Getting users in %s as %s...", place(s, w["ORG"], w["SPACE"]), s.Out.Bold(s.API.User().Name()))
	in, space, err := placeOf(ctx, s, w)
	if err != nil {
		return nil, err
	}
	q := url.Values{"include": {"user"}, "organization_guids": {in.GUID}, "per_page": {"5000"}}
	_, inSpace := w["SPACE"]
	if inSpace {
		in = space
		q.Del("organization_guids")
		q.Set("space_guids", in.GUID)
	}
	found, included, err := client.ListWith[cfapi.Role](ctx, s.API, "/v3/roles", q)
	if err != nil {
		return nil, err
	}
	users := client.Of[cfapi.User](included, "users")
	out := &members{Where: config.Named{GUID: in.GUID, Name: in.Name}}
	for _, r := range rolesIn(inSpace) {
		row := memberOfRole{r.word, []roleHolder{}, r.title}
		for _, g := range found {
			if g.Type == r.kind {
				guid := g.Relationships.User.GUID()
				row.Users = append(row.Users, roleHolder{guid, cmp.Or(users[guid].Name, guid), users[guid].Origin})
			}
		}
		slices.SortFunc(row.Users, func(a, b roleHolder) int { return strings.Compare(a.Name, b.Name) })
		out.Roles = append(out.Roles, row)
	}
	return out, nil
}

func rolesCommands() []*core.Command {
	return core.InGroup(core.GroupUsers,
		core.Entry("org-users", "ORG", "List the users of an org by role", core.NeedsLogin, listUsers, "acme"),
		core.Entry("set-org-role", "USER ORG ROLE", "Assign an org role to a user", core.NeedsLogin, changeRole(true),
			"ann@example.com acme OrgManager").
			Explained("ROLE is OrgManager, BillingManager, OrgAuditor or OrgUser."),
		core.Entry("unset-org-role", "USER ORG ROLE", "Remove an org role from a user", core.NeedsLogin, changeRole(false),
			"ann@example.com acme OrgManager"),
		core.Entry("space-users", "ORG SPACE", "List the users of a space by role", core.NeedsLogin, listUsers, "acme shop"),
		core.Entry("set-space-role", "USER ORG SPACE ROLE", "Assign a space role to a user", core.NeedsLogin,
			changeRole(true),
			"ann@example.com acme shop SpaceDeveloper").
			Explained("ROLE is SpaceManager, SpaceDeveloper, SpaceSupporter or SpaceAuditor."),
		core.Entry("unset-space-role", "USER ORG SPACE ROLE", "Remove a space role from a user", core.NeedsLogin,
			changeRole(false),
			"ann@example.com acme shop SpaceDeveloper"),
	)
}
