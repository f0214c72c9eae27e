package orgs

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var roleTypes = []platform.RoleType{
	platform.OrgAuditor, platform.OrgManager, platform.OrgBillingManager, platform.OrgUser, platform.SpaceAuditor,
	platform.SpaceDeveloper, platform.SpaceManager, platform.SpaceSupporter,
}

func (a *API) roles() rest.Resource[platform.Role, roleBody] {
	return rest.Resource[platform.Role, roleBody]{
		Noun: "Role", Repo: platform.Tx.Roles, Present: rest.Each(presentRole),
		List: listing.Params{
			Filters: listing.Filters{
				"types": listing.Text("type"), "user_guids": listing.Text("user_guid"),
				"organization_guids": listing.Text("organization_guid"), "space_guids": listing.Text("space_guid"),
			},
			Includes: []string{"user", "organization", "space"}, NoLabels: true,
		},
		Include: rest.IncludeBy(map[string]rest.Includer[platform.Role]{
			"user": rest.Referred("users", a.users(), func(r *platform.Role) string { return r.UserGUID }),
			"organization": rest.Referred("organizations", Organizations,
				func(r *platform.Role) string { return r.OrgGUID }),
			"space": rest.Referred("spaces", Spaces, func(r *platform.Role) string { return r.SpaceGUID }),
		}),
	}
}

func (a *API) roleRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/roles", rest.Read, a.roles().Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/roles", rest.Write, a.createRole)
	g.Handle(http.MethodGet, "/v3/roles/{guid}", rest.Read, a.roles().Getter(a.Server))
	g.Handle(http.MethodDelete, "/v3/roles/{guid}", rest.Write,
		rest.Deleter(a.Server, "role.delete", a.roleToTake, a.Platform.TakeRole))
}

type roleRequest struct {
	Type          platform.RoleType `json:"type"`
	Relationships struct {
		User struct {
			Data *struct {
				GUID     string  `json:"guid"`
				Username *string `json:"username"`
				Origin   *string `json:"origin"`
			} `json:"data"`
		} `json:"user"`
		Organization rest.Relation `json:"organization"`
		Space        rest.Relation `json:"space"`
	} `json:"relationships"`
}

func (b *roleRequest) check() error {
	if !slices.Contains(roleTypes, b.Type) {
		names := make([]string, 0, len(roleTypes))
		for _, t := range roleTypes {
			names = append(names, string(t))
		}
		return fault.Invalid("Type must be one of the allowed types " + strings.Join(names, ", "))
	}
	org, space := b.Relationships.Organization.Data != nil, b.Relationships.Space.Data != nil
	switch {
	case b.Relationships.User.Data == nil:
		return fault.Invalid("Relationships 'relationships' must include 'user'")
	case org && space:
		return fault.Invalid("Cannot pass both 'organization' and 'space' in a create role request")
	case b.Type.OfOrganization() && !org:
		return fault.Invalid("Role type '" + string(b.Type) + "' requires an organization in 'relationships'")
	case !b.Type.OfOrganization() && !space:
		return fault.Invalid("Role type '" + string(b.Type) + "' requires a space in 'relationships'")
	}
	return nil
}

func (a *API) createRole(w http.ResponseWriter, r *http.Request) error {
	var body roleRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	// Callers that may not assign roles learn nothing about user names.
	_, err := rest.View(a.Server, r, func(req *rest.Request) (platform.Cond, error) {
		return a.placeRole(req, &platform.Role{}, &body)
	})
	if err != nil {
		return err
	}
	user := body.Relationships.User.Data
	name := user.GUID
	if user.Username != nil {
		found, err := a.directoryUser(r.Context(), *user.Username, user.Origin)
		if err != nil {
			return err
		}
		user.GUID, name = found.ID, found.UserName
	}
	outside, err := a.roleHolder(r, user.GUID, user.Username != nil)
	if err != nil {
		return err
	}
	return rest.Answer(a.Server, w, r, a.roles(), http.StatusCreated, func(req *rest.Request) (*platform.Role, error) {
		role := &platform.Role{Type: body.Type, UserGUID: user.GUID}
		where, err := a.placeRole(req, role, &body)
		if err != nil {
			return nil, err
		}
		if err := a.knownUser(req, user.GUID, outside); err != nil {
			return nil, err
		}
		if err := memberOf(req.Tx, role); err != nil {
			return nil, err
		}
		if user.Username != nil {
			if err := req.NeedFlag("set_roles_by_username"); err != nil {
				return nil, err
			}
		}
		taken, err := req.Tx.Roles().Count(platform.Where("user_guid", role.UserGUID).
			And(platform.In("type", string(role.Type))).And(where))
		if err != nil {
			return nil, err
		}
		if taken > 0 {
			return nil, fault.New(fault.Unprocessable, "%s", duplicateRole(req.Tx, name, role))
		}
		return role, a.Platform.GiveRole(req.Tx, req.Caller.Actor(), role)
	})
}

// duplicateRole is the text by which cf recognizes that the role exists already.
func duplicateRole(tx platform.Tx, name string, role *platform.Role) string {
	place := ""
	if role.SpaceGUID != "" {
		if s, err := tx.Spaces().Get(role.SpaceGUID); err == nil {
			place = fmt.Sprintf(" in space '%s'", s.Name)
		}
	} else if o, err := tx.Organizations().Get(role.OrgGUID); err == nil {
		place = fmt.Sprintf(" in organization '%s'", o.Name)
	}
	return fmt.Sprintf("User '%s' already has '%s' role%s.", name, role.Type, place)
}

// placeRole sets the organization or space of the role, if the caller may assign it
// there.
func (a *API) placeRole(req *rest.Request, role *platform.Role, body *roleRequest) (platform.Cond, error) {
	if body.Type.OfOrganization() {
		role.OrgGUID = body.Relationships.Organization.Data.GUID
		if _, err := rest.Find(req.Caller, req.Tx.Organizations(), role.OrgGUID, "Organization"); err != nil {
			return platform.Cond{}, rest.NotAccessible(err,
				"Invalid organization. Ensure that the organization exists and you have access to it.")
		}
		return platform.In("organization_guid", role.OrgGUID), req.Caller.ManagesOrg(req.Tx, role.OrgGUID)
	}
	role.SpaceGUID = body.Relationships.Space.Data.GUID
	_, err := req.SpaceNamed(role.SpaceGUID, platform.ManageSpace)
	return platform.In("space_guid", role.SpaceGUID), err
}

// memberOf returns an error if the user of a space role has no role in the
// organization.
func memberOf(tx platform.Tx, role *platform.Role) error {
	if role.SpaceGUID == "" {
		return nil
	}
	space, err := tx.Spaces().Get(role.SpaceGUID)
	if err != nil {
		return err
	}
	n, err := tx.Roles().Count(platform.Where("user_guid", role.UserGUID).
		And(platform.In("organization_guid", space.OrgGUID)))
	if err == nil && n == 0 {
		err = fault.New(fault.Unprocessable,
			"Users cannot be assigned roles in a space if they do not have a role in that space's organization.")
	}
	return err
}

// roleHolder reports whether a role is for a user that was found by name, or for a
// client that is not stored yet: the authorization server knows both.
func (a *API) roleHolder(r *http.Request, guid string, byName bool) (bool, error) {
	if byName {
		return true, nil
	}
	_, err := rest.View(a.Server, r, func(req *rest.Request) (*platform.User, error) {
		return rest.Find(req.Caller, req.Tx.Users(), guid, "User")
	})
	if !fault.Is(err, fault.NotFound) {
		return false, err
	}
	return a.Directory.ClientExists(r.Context(), guid)
}

// knownUser returns an error if the caller may not see the user. Those that exist at
// the authorization server are stored now.
func (a *API) knownUser(req *rest.Request, guid string, outside bool) error {
	if outside {
		return nil
	}
	_, err := rest.Find(req.Caller, req.Tx.Users(), guid, "User")
	return rest.NotAccessible(err, "Invalid user. Ensure that the user exists and you have access to it.")
}

// roleToTake returns the role of the path if the caller may delete it.
func (a *API) roleToTake(req *rest.Request) (*platform.Role, error) {
	role, err := a.roles().Find(req)
	if err != nil {
		return nil, err
	}
	if role.SpaceGUID != "" {
		_, err := req.Caller.MayInSpace(req.Tx, role.SpaceGUID, platform.ManageSpace)
		return role, err
	}
	if err := req.Caller.ManagesOrg(req.Tx, role.OrgGUID); err != nil {
		return nil, err
	}
	return role, a.lastOrgRole(req.Tx, role)
}

// lastOrgRole returns an error if it is the last role of a user in an organization
// in whose spaces the user still has roles.
func (a *API) lastOrgRole(tx platform.Tx, role *platform.Role) error {
	others, err := tx.Roles().Count(platform.Where("user_guid", role.UserGUID).
		And(platform.In("organization_guid", role.OrgGUID)))
	if err != nil || others > 1 {
		return err
	}
	inOrg, _, err := tx.Spaces().List(platform.Where("organization_guid", role.OrgGUID))
	if err != nil {
		return err
	}
	left, err := tx.Roles().Count(platform.Where("user_guid", role.UserGUID).
		And(platform.InStrings("space_guid", rest.GUIDsOf(inOrg, func(s *platform.Space) string { return s.GUID }))))
	if err == nil && left > 0 {
		err = fault.New(fault.Unprocessable,
			"Cannot delete organization_user role while user has roles in spaces in that organization.")
	}
	return err
}

type roleBody struct {
	rest.ResourceBody
	Type          platform.RoleType `json:"type"`
	Relationships map[string]any    `json:"relationships"`
	Links         rest.Links        `json:"links"`
}

func presentRole(req *rest.Request, r *platform.Role) roleBody {
	b := roleBody{
		ResourceBody: rest.PresentResource(&r.Resource), Type: r.Type,
		Relationships: map[string]any{"user": rest.ToOne(r.UserGUID), "organization": rest.ToOne(r.OrgGUID),
			"space": rest.ToOne(r.SpaceGUID)},
		Links: rest.Links{"self": req.Link("/roles/", rest.Escape(r.GUID)),
			"user": req.Link("/users/", rest.Escape(r.UserGUID))},
	}
	if r.OrgGUID != "" {
		b.Links["organization"] = req.Link("/organizations/", rest.Escape(r.OrgGUID))
	}
	if r.SpaceGUID != "" {
		b.Links["space"] = req.Link("/spaces/", rest.Escape(r.SpaceGUID))
	}
	return b
}
