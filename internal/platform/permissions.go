package platform

import (
	"slices"

	"ingot/internal/base/fault"
)

// The scopes of the platform's API.
const (
	ScopeRead          = "cloud_controller.read"
	ScopeWrite         = "cloud_controller.write"
	ScopeAdmin         = "cloud_controller.admin"
	ScopeAdminReadOnly = "cloud_controller.admin_read_only"
	ScopeGlobalAuditor = "cloud_controller.global_auditor"
	ScopeNetworkAdmin  = "network.admin"
	ScopeNetworkWrite  = "network.write"
)

// ReadAllScopes are the scopes of which each lets a caller read every resource.
var ReadAllScopes = []string{ScopeAdmin, ScopeAdminReadOnly, ScopeGlobalAuditor}

// Authority is what the scopes of a token allow everywhere, without any role.
type Authority struct {
	Admin         bool // everything
	AdminReadOnly bool // to read everything
	GlobalAuditor bool // to read everything but secrets
}

// AuthorityOf returns the authority that scopes give.
func AuthorityOf(scopes []string) Authority {
	return Authority{
		Admin:         slices.Contains(scopes, ScopeAdmin),
		AdminReadOnly: slices.Contains(scopes, ScopeAdminReadOnly),
		GlobalAuditor: slices.Contains(scopes, ScopeGlobalAuditor),
	}
}

// Grants reports whether the authority is enough for an action, whatever the
// roles of the caller.
func (a Authority) Grants(action Action) bool {
	switch permissions[action].kind {
	case read:
		return a.Admin || a.AdminReadOnly || a.GlobalAuditor
	case readSecret:
		return a.Admin || a.AdminReadOnly
	}
	return a.Admin
}

// Caller is who makes a request: a user, or a client on its own behalf.
type Caller struct {
	GUID string
	Authority
}

// Reader restricts lists to what the caller may see. It is nil for callers who
// may see everything.
func (c Caller) Reader() *Reader {
	if c.Grants(ReadSpace) {
		return nil
	}
	return &Reader{UserGUID: c.GUID}
}

// Standing is all that decides what a caller may do in a space, or in an
// organization.
type Standing struct {
	Authority
	Roles     []RoleType // in the organization and, if it is about a space, in that
	Suspended bool       // the organization is suspended
}

// Grants reports whether authority or roles are enough for an action. A change
// may still be refused because the organization is suspended.
func (s Standing) Grants(action Action) bool {
	return s.Authority.Grants(action) ||
		slices.ContainsFunc(s.Roles, func(r RoleType) bool { return slices.Contains(permissions[action].roles, r) })
}

// Check returns fault.Forbidden if the caller may not do it. In a suspended
// organization only administrators make changes.
func (s Standing) Check(action Action) error {
	switch {
	case !s.Grants(action):
		return Forbidden()
	case s.Suspended && !s.Admin && permissions[action].kind == change:
		return fault.New(fault.Forbidden, "The organization is suspended")
	}
	return nil
}

// Forbidden is the refusal of what a caller may not do.
func Forbidden() error {
	return fault.New(fault.Forbidden, "You are not authorized to perform the requested action")
}

// Action is something that takes a permission.
type Action int

// The actions.
const (
	ReadOrganization   Action = iota // the organization, its domains and its users
	ReadSpace                        // the space, its apps with their logs, routes and service instances
	ReadEvents                       // audit events
	ReadSpaceQuotas                  // all space quotas of an organization
	ReadSecrets                      // commands of processes and tasks, credentials of services, manifests
	ReadEnvironment                  // the environment variables of apps
	Operate                          // start, stop, scale, stage and configure apps, map routes
	Develop                          // create, update and delete apps and service instances, run tasks
	OpenShell                        // open ssh sessions in instances
	ManageSpace                      // update the space, assign its roles
	ManageOrganization               // update the organization, assign its roles, create and delete spaces
)

// kind says which authority an action takes, and whether a suspended
// organization refuses it.
type kind int

const (
	read kind = iota
	readSecret
	change
)

// permissions are Cloud Foundry's rules: who may do what. Everything that
// decides about permissions, the SQL of stores included, is derived from them.
var permissions = map[Action]struct {
	kind  kind
	roles []RoleType
}{
	ReadOrganization:   {read, slices.Concat(OrganizationRoles, SpaceRoles)},
	ReadSpace:          {read, slices.Concat([]RoleType{OrgManager}, SpaceRoles)},
	ReadEvents:         {read, []RoleType{OrgAuditor, SpaceDeveloper, SpaceAuditor, SpaceSupporter}},
	ReadSpaceQuotas:    {read, []RoleType{OrgManager}},
	ReadSecrets:        {readSecret, []RoleType{SpaceDeveloper}},
	ReadEnvironment:    {readSecret, []RoleType{SpaceDeveloper, SpaceSupporter}},
	Operate:            {change, []RoleType{SpaceDeveloper, SpaceSupporter}},
	Develop:            {change, []RoleType{SpaceDeveloper}},
	OpenShell:          {change, []RoleType{SpaceDeveloper}},
	ManageSpace:        {change, []RoleType{SpaceManager, OrgManager}},
	ManageOrganization: {change, []RoleType{OrgManager}},
}

// RolesFor returns the roles in an organization, and those in a space, that
// permit an action.
func RolesFor(action Action) (organization, space []RoleType) {
	for _, r := range permissions[action].roles {
		if r.OfOrganization() {
			organization = append(organization, r)
		} else {
			space = append(space, r)
		}
	}
	return organization, space
}
