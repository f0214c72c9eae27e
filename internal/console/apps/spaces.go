package apps

import (
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

// Developed is a space in which the user is a developer.
type Developed struct{ GUID, Name, Org string }

// DevelopedSpaces returns the spaces in which the user is a developer; all for
// administrators.
func DevelopedSpaces(c *page.Caller) ([]Developed, error) {
	type included struct {
		Orgs []cfapi.Thing `json:"organizations"`
	}
	var l cfapi.List[cfapi.Space, included]
	var roles []cfapi.Role
	err := page.Together(
		func() (err error) {
			l, err = page.AllWith[cfapi.Space, included](c, "/v3/spaces", url.Values{"include": {"organization"},
				"order_by": {"name"}})
			return err
		},
		func() (err error) {
			if !c.Session.Admin() {
				roles, err = page.All[cfapi.Role](c, "/v3/roles", url.Values{"user_guids": {c.Session.UserID},
					"types": {"space_developer"}})
			}
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	orgs := cfapi.Names(l.Included.Orgs)
	var out []Developed
	for _, in := range l.Resources {
		if c.Session.Admin() || slices.ContainsFunc(roles,
			func(r cfapi.Role) bool { return r.Relationships.Space.GUID() == in.GUID }) {
			out = append(out, Developed{in.GUID, in.Name, orgs[in.Relationships.Organization.GUID()]})
		}
	}
	slices.SortStableFunc(out, func(a, b Developed) int { return strings.Compare(a.Org, b.Org) })
	return out, nil
}

// MayCreate reports whether the user may create apps in a space; in any, if it is empty.
func MayCreate(c *page.Caller, space string) (bool, error) {
	spaces, err := DevelopedSpaces(c)
	return slices.ContainsFunc(spaces, func(d Developed) bool { return space == "" || d.GUID == space }), err
}
