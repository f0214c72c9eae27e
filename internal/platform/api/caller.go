package api

import (
	"net/http"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// caller is who makes a request.
type caller struct {
	guid, name, mail, kind string
	// admin may do everything; readsAll sees everything; secrets says whether
	// environments and credentials are shown where no role decides.
	admin, readsAll, secrets bool
}

func callerOf(r *http.Request) caller {
	c := token.FromContext(r.Context())
	out := caller{
		guid: callerID(c), name: c.UserName, mail: c.Email, kind: "user",
		admin: c.HasAny(scopeAdmin), readsAll: readsAll(c), secrets: c.HasAny(scopeAdmin, scopeAdminReadOnly),
	}
	if !c.IsUser() {
		out.kind, out.name = "client", c.ClientID
	}
	return out
}

// actor is the caller as audit events name him.
func (c caller) actor() actions.Actor {
	return actions.Actor{GUID: c.guid, Type: c.kind, Name: c.name, Mail: c.mail, Admin: c.admin}
}

// reader restricts lists to what the caller may see.
func (c caller) reader() *platform.Reader {
	if c.readsAll {
		return nil
	}
	return &platform.Reader{UserGUID: c.guid}
}

// find returns a resource the caller may see. For others it does not exist.
func find[T any](c caller, repo platform.Repo[T], guid, noun string) (*T, error) {
	q := platform.Where("guid", guid)
	q.Reader = c.reader()
	found, err := repo.First(q)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.NotFound, "%s not found", noun)
	}
	return found, err
}

// lookup is find for everybody: the caller's rights were checked elsewhere.
func lookup[T any](repo platform.Repo[T], guid, noun string) (*T, error) {
	found, err := repo.Get(guid)
	if fault.Is(err, fault.NotFound) {
		return nil, fault.Wrap(err, fault.NotFound, "%s not found", noun)
	}
	return found, err
}

// hasSpaceRole reports whether the caller has one of roles in the space, or,
// for roles of organizations, in the space's organization.
func (c caller) hasSpaceRole(tx platform.Tx, space *platform.Space, roles ...platform.RoleType) (bool, error) {
	for _, r := range roles {
		q := platform.Where("user_guid", c.guid).And(platform.In("type", string(r)))
		if isOrgRole(r) {
			q = q.And(platform.In("organization_guid", space.OrgGUID))
		} else {
			q = q.And(platform.In("space_guid", space.GUID))
		}
		if n, err := tx.Roles().Count(q); err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}

// showsSecrets reports whether the caller may see what only developers of an
// app see: commands, for example.
func (p *presenter) showsSecrets(appGUID string) (bool, error) {
	if p.caller.secrets {
		return true, nil
	}
	app, err := p.tx.Apps().Get(appGUID)
	if err != nil {
		return false, ignoreNotFound(err)
	}
	space, err := p.tx.Spaces().Get(app.SpaceGUID)
	if err != nil {
		return false, err
	}
	return p.caller.hasSpaceRole(p.tx, space, platform.SpaceDeveloper)
}

func isOrgRole(r platform.RoleType) bool {
	return slices.Contains([]platform.RoleType{platform.OrgUser, platform.OrgManager, platform.OrgAuditor, platform.OrgBillingManager}, r)
}

// mayInSpace refuses callers without one of roles in a space they can see, and
// changes in suspended organizations.
func (c caller) mayInSpace(tx platform.Tx, spaceGUID string, roles ...platform.RoleType) (*platform.Space, error) {
	space, err := tx.Spaces().Get(spaceGUID)
	if err != nil {
		return nil, err
	}
	if c.admin {
		return space, nil
	}
	ok, err := c.hasSpaceRole(tx, space, roles...)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, forbidden()
	}
	return space, c.notSuspended(tx, space.OrgGUID)
}

// mayInOrg refuses callers without one of roles in an organization.
func (c caller) mayInOrg(tx platform.Tx, orgGUID string, roles ...platform.RoleType) error {
	if c.admin {
		return nil
	}
	for _, r := range roles {
		n, err := tx.Roles().Count(platform.Where("user_guid", c.guid).And(platform.In("type", string(r))).And(platform.In("organization_guid", orgGUID)))
		if err != nil {
			return err
		}
		if n > 0 {
			return c.notSuspended(tx, orgGUID)
		}
	}
	return forbidden()
}

func (c caller) notSuspended(tx platform.Tx, orgGUID string) error {
	org, err := tx.Organizations().Get(orgGUID)
	if err != nil {
		return err
	}
	if org.Suspended {
		return fault.New(fault.Forbidden, "The organization is suspended")
	}
	return nil
}

func forbidden() error {
	return fault.New(fault.Forbidden, "You are not authorized to perform the requested action")
}

// orForbidden is err, or the refusal when there is none.
func orForbidden(err error) error {
	if err != nil {
		return err
	}
	return forbidden()
}
