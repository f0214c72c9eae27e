package platform

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/fault"
)

// TestPermissions is the table of who may do what: a line for each standing, a
// column for each action. In a suspended organization the marks in capitals are
// refused.
func TestPermissions(t *testing.T) {
	t.Parallel()
	columns := []Action{ReadOrganization, ReadSpace, ReadEvents, ReadSpaceQuotas, ReadSecrets, ReadEnvironment, Operate,
		Develop, OpenShell, ManageSpace, ManageOrganization}
	if len(columns) != len(permissions) {
		t.Fatalf("the table has %d actions, want all %d", len(columns), len(permissions))
	}
	lines := map[string]string{
		//                                            org space events quotas secrets env operate develop shell space org
		"":                           ".   .     .      .      .       .   .       .       .     .     .",
		string(OrgUser):              "y   .     .      .      .       .   .       .       .     .     .",
		string(OrgManager):           "y   y     .      y      .       .   .       .       .     Y     Y",
		string(OrgAuditor):           "y   .     y      .      .       .   .       .       .     .     .",
		string(OrgBillingManager):    "y   .     .      .      .       .   .       .       .     .     .",
		string(SpaceDeveloper):       "y   y     y      .      y       y   Y       Y       Y     .     .",
		string(SpaceManager):         "y   y     .      .      .       .   .       .       .     Y     .",
		string(SpaceAuditor):         "y   y     y      .      .       .   .       .       .     .     .",
		string(SpaceSupporter):       "y   y     y      .      .       y   Y       .       .     .     .",
		ScopeAdmin:                   "y   y     y      y      y       y   y       y       y     y     y",
		ScopeAdminReadOnly:           "y   y     y      y      y       y   .       .       .     .     .",
		ScopeGlobalAuditor:           "y   y     y      y      .       .   .       .       .     .     .",
		ScopeRead + " " + ScopeWrite: ".   .     .      .      .       .   .       .       .     .     .",
		// unknown roles
		"organization_owner developer": ".   .     .      .      .       .   .       .       .     .  " +
			"   .",
		"space_auditor space_developer": "y   y     y      .      y       y   Y       Y       Y     .  " +
			"   .",
		"space_supporter " + ScopeGlobalAuditor:             "y y y y . y Y . . . .",
		"organization_manager " + ScopeAdminReadOnly:        "y y y y y y . . . Y Y",
		"organization_user " + ScopeAdmin + " " + ScopeRead: "y y y y y y y y y y y",
	}
	for _, r := range slices.Concat(OrganizationRoles, SpaceRoles) {
		if lines[string(r)] == "" {
			t.Errorf("the table has no line for %s", r)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(lines)) {
		words := strings.Fields(who)
		s := Standing{Authority: AuthorityOf(words)}
		for _, w := range words {
			s.Roles = append(s.Roles, RoleType(w))
		}
		marks := strings.Fields(lines[who])
		for i, action := range columns {
			granted, active, suspended := marks[i] != ".", s, s
			suspended.Suspended = true
			if got := active.Grants(action); got != granted {
				t.Errorf("%q: Grants(%d) = %v, want %v", who, action, got, granted)
			}
			if err := active.Check(action); (err == nil) != granted {
				t.Errorf("%q: Check(%d) = %v, want allowed: %v", who, action, err, granted)
			}
			err := suspended.Check(action)
			switch {
			case marks[i] == "y" && err != nil:
				t.Errorf("%q, suspended: Check(%d) = %v, want allowed", who, action, err)
			case marks[i] == "." && (!fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "not authorized")):
				t.Errorf("%q, suspended: Check(%d) = %v, want not authorized", who, action, err)
			case marks[i] == "Y" && (!fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "suspended")):
				t.Errorf("%q, suspended: Check(%d) = %v, want that the organization is suspended", who, action, err)
			}
		}
	}
}

// TestReader sees that only callers who read everything are not restricted.
func TestReader(t *testing.T) {
	t.Parallel()
	for scope, restricted := range map[string]bool{
		"": true, ScopeRead: true, ScopeWrite: true, ScopeAdmin: false, ScopeAdminReadOnly: false, ScopeGlobalAuditor: false,
	} {
		r := Caller{GUID: "u", Authority: AuthorityOf([]string{scope})}.Reader()
		if (r != nil) != restricted || r != nil && r.UserGUID != "u" {
			t.Errorf("with the scope %q the reader is %v, want restricted: %v", scope, r, restricted)
		}
		if slices.Contains(ReadAllScopes, scope) == restricted {
			t.Errorf("ReadAllScopes and the reader of the scope %q differ", scope)
		}
	}
}

// TestRolesFor sees that each role is in the list of where it is held.
func TestRolesFor(t *testing.T) {
	t.Parallel()
	for action, p := range permissions {
		organization, space := RolesFor(action)
		if got := slices.Concat(organization, space); len(got) != len(p.roles) {
			t.Errorf("RolesFor(%d) = %v, want %v", action, got, p.roles)
		}
		for _, r := range p.roles {
			in := space
			if strings.HasPrefix(string(r), "organization_") {
				in = organization
			}
			if !slices.Contains(in, r) {
				t.Errorf("RolesFor(%d) has %s not where it is held", action, r)
			}
		}
	}
}
