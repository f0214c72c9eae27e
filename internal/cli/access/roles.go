package access

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

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

func (f roleFlags) assign(ctx context.Context, s *core.Session, user, kind, at, guid string) error {
	body := map[string]any{"type": kind, "relationships": map[string]any{"user": f.user(user), at: client.Relate(guid)}}
	_, err := s.API.Post(ctx, "/v3/roles", body, nil)
	if client.Says(err, "already has") {
		return nil // already assigned
	}
	return err
}

// remove removes a role and reports whether the user had it.
func (f roleFlags) remove(ctx context.Context, s *core.Session, user, kind, at, guid string) (bool, error) {
	id := user
	if !f.Client {
		q := url.Values{"usernames": {user}}
		if f.Origin != "" {
			q.Set("origins", f.Origin)
		}
		found, err := client.List[client.Thing](ctx, s.API, "/v3/users", q)
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
	roles, err := client.List[client.Thing](ctx, s.API, "/v3/roles", url.Values{"types": {kind}, "user_guids": {id},
		at + "_guids": {guid}})
	if err != nil || len(roles) == 0 {
		return false, err
	}
	return true, s.API.Delete(ctx, "/v3/roles/"+roles[0].GUID)
}

// change assigns or removes a role.
func (f roleFlags) change(ctx context.Context, s *core.Session, user string, r role, org, space client.Thing,
	give bool) (core.Result, error) {
	at, in, where := "organization", org, "org "+s.Out.Bold(org.Name)
	if space.GUID != "" {
		at, in, where = "space", space, "org "+s.Out.Bold(org.Name)+" / space "+s.Out.Bold(space.Name)
	}
	out := &roleChange{user, r.word, org.Name, space.Name, give}
	if give {
		s.Say("Assigning role %s to user %s in %s as %s...", r.word, s.Out.Bold(user), where, s.Out.Bold(s.API.User().Name()))
		if space.GUID != "" {
			// A space role requires membership in the org.
			if err := f.assign(ctx, s, user, "organization_user", "organization", org.GUID); err != nil {
				return nil, err
			}
		}
		if err := f.assign(ctx, s, user, r.kind, at, in.GUID); err != nil {
			return nil, err
		}
		s.OK()
		return out, nil
	}
	s.Say("Removing role %s from user %s in %s as %s...", r.word, s.Out.Bold(user), where, s.Out.Bold(s.API.User().Name()))
	had, err := f.remove(ctx, s, user, r.kind, at, in.GUID)
	if err != nil {
		return nil, err
	}
	if !had {
		s.Say("User %s does not have this role.", user)
	}
	s.OK()
	return out, nil
}

type orgRoleFlags struct {
	roleFlags
	Args struct {
		User string `positional-arg-name:"USER" required:"yes"`
		Org  string `positional-arg-name:"ORG" required:"yes"`
		Role string `positional-arg-name:"ROLE" required:"yes"`
	} `positional-args:"yes"`
}

func changeOrgRole(give bool) func(context.Context, *core.Session, core.Words, *orgRoleFlags) (core.Result, error) {
	return func(ctx context.Context, s *core.Session, _ core.Words, f *orgRoleFlags) (core.Result, error) {
		r, err := findRole(orgRoles, f.Args.Role)
		if err != nil {
			return nil, err
		}
		org, err := s.Org(ctx, f.Args.Org)
		if err != nil {
			return nil, err
		}
		return f.change(ctx, s, f.Args.User, r, org, client.Thing{}, give)
	}
}

type spaceRoleFlags struct {
	roleFlags
	Args struct {
		User  string `positional-arg-name:"USER" required:"yes"`
		Org   string `positional-arg-name:"ORG" required:"yes"`
		Space string `positional-arg-name:"SPACE" required:"yes"`
		Role  string `positional-arg-name:"ROLE" required:"yes"`
	} `positional-args:"yes"`
}

func changeSpaceRole(give bool) func(context.Context, *core.Session, core.Words, *spaceRoleFlags) (core.Result, error) {
	return func(ctx context.Context, s *core.Session, _ core.Words, f *spaceRoleFlags) (core.Result, error) {
		r, err := findRole(spaceRoles, f.Args.Role)
		if err != nil {
			return nil, err
		}
		org, err := s.Org(ctx, f.Args.Org)
		if err != nil {
			return nil, err
		}
		space, err := s.SpaceOf(ctx, org, f.Args.Space)
		if err != nil {
			return nil, err
		}
		return f.change(ctx, s, f.Args.User, r, org, space, give)
	}
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

type userOf struct {
	GUID   string `json:"guid"`
	Name   string `json:"presentation_name"`
	Origin string `json:"origin"`
}

func (u userOf) ID() string { return u.GUID }

func membersOf(ctx context.Context, s *core.Session, at string, in client.Thing, kinds []role) (core.Result, error) {
	type given struct {
		Type          string `json:"type"`
		Relationships struct {
			User client.To `json:"user"`
		} `json:"relationships"`
	}
	found, included, err := client.ListWith[given](ctx, s.API, "/v3/roles", url.Values{"include": {"user"},
		at + "_guids": {in.GUID}, "per_page": {"5000"}})
	if err != nil {
		return nil, err
	}
	users := client.Of[userOf](included, "users")
	out := &members{Where: config.Named{GUID: in.GUID, Name: in.Name}}
	for _, r := range kinds {
		row := memberOfRole{r.word, []roleHolder{}, r.title}
		for _, g := range found {
			if g.Type == r.kind {
				u := users[g.Relationships.User.GUID()]
				row.Users = append(row.Users, roleHolder{g.Relationships.User.GUID(), cmp.Or(u.Name, g.Relationships.User.GUID()),
					u.Origin})
			}
		}
		slices.SortFunc(row.Users, func(a, b roleHolder) int { return strings.Compare(a.Name, b.Name) })
		out.Roles = append(out.Roles, row)
	}
	return out, nil
}

func listOrgUsers(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Say("Getting users in org %s as %s...", s.Out.Bold(w["ORG"]), s.Out.Bold(s.API.User().Name()))
	org, err := s.Org(ctx, w["ORG"])
	if err != nil {
		return nil, err
	}
	return membersOf(ctx, s, "organization", org, orgRoles)
}

type spaceUsersFlags struct {
	Args struct {
		Org   string `positional-arg-name:"ORG" required:"yes"`
		Space string `positional-arg-name:"SPACE" required:"yes"`
	} `positional-args:"yes"`
}

func listSpaceUsers(ctx context.Context, s *core.Session, _ core.Words, f *spaceUsersFlags) (core.Result, error) {
	s.Say("Getting users in org %s / space %s as %s...", s.Out.Bold(f.Args.Org), s.Out.Bold(f.Args.Space),
		s.Out.Bold(s.API.User().Name()))
	org, err := s.Org(ctx, f.Args.Org)
	if err != nil {
		return nil, err
	}
	space, err := s.SpaceOf(ctx, org, f.Args.Space)
	if err != nil {
		return nil, err
	}
	return membersOf(ctx, s, "space", space, spaceRoles)
}

func rolesCommands() []*core.Command {
	return core.InGroup(core.GroupUsers,
		core.Entry("org-users", "ORG", "List the users of an org by role", core.NeedsLogin, listOrgUsers, "acme"),
		core.Entry("set-org-role", "USER ORG ROLE", "Assign an org role to a user", core.NeedsLogin, changeOrgRole(true),
			"ann@example.com acme OrgManager").
			Explained("ROLE is OrgManager, BillingManager, OrgAuditor or OrgUser."),
		core.Entry("unset-org-role", "USER ORG ROLE", "Remove an org role from a user", core.NeedsLogin, changeOrgRole(false),
			"ann@example.com acme OrgManager"),
		core.Entry("space-users", "ORG SPACE", "List the users of a space by role", core.NeedsLogin, listSpaceUsers,
			"acme shop"),
		core.Entry("set-space-role", "USER ORG SPACE ROLE", "Assign a space role to a user", core.NeedsLogin,
			changeSpaceRole(true),
			"ann@example.com acme shop SpaceDeveloper").
			Explained("ROLE is SpaceManager, SpaceDeveloper, SpaceSupporter or SpaceAuditor."),
		core.Entry("unset-space-role", "USER ORG SPACE ROLE", "Remove a space role from a user", core.NeedsLogin,
			changeSpaceRole(false),
			"ann@example.com acme shop SpaceDeveloper"),
	)
}
