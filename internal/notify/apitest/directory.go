package apitest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// Directory is who there is.
type Directory struct {
	// Users are addresses by user id.
	Users map[string]string
	// Members are the user ids of spaces, organizations and scopes, by their id;
	// "ORG/ROLE" are those with a role.
	Members map[string][]string
	// Broken makes every question fail.
	Broken bool
}

// People makes n users and returns their ids.
func (d *Directory) People(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("user-%05d", i)
		d.Users[ids[i]] = ids[i] + "@example.com"
	}
	return ids
}

var errBroken = fault.New(fault.BadGateway, "CloudController Failure (0): unexpected status: 500 ")

// Resolve implements notify.Directory.
func (d *Directory) Resolve(_ context.Context, a notify.Audience) (notify.Audience, error) {
	if d.Broken {
		return a, errBroken
	}
	_, known := d.Members[a.ID]
	switch a.Type {
	case notify.ToSpace:
		if !known {
			return a, fault.New(fault.NotFound, "CloudController Failure: Space %q could not be found", a.ID)
		}
		a.SpaceName, a.OrgName, a.OrgID = "the space", "the org", "org-1"
	case notify.ToOrg:
		if !known {
			return a, fault.New(fault.NotFound, "CloudController Failure: Organization %q could not be found", a.ID)
		}
		a.OrgName, a.OrgID = "the org", a.ID
	case notify.ToScope:
		if a.ID == "openid" {
			return a, fault.New(fault.NotAcceptable, "You cannot send a notification to a default scope")
		}
		if !known {
			return a, fault.New(fault.NotFound, "The scope %q could not be found", a.ID)
		}
	}
	return a, nil
}

// Page implements notify.Directory.
func (d *Directory) Page(_ context.Context, a notify.Audience, cursor string, limit int) ([]notify.Recipient,
	string, error) {
	if d.Broken {
		return nil, "", errBroken
	}
	ids := d.Members[a.ID]
	if a.Role != "" {
		ids = d.Members[a.ID+"/"+a.Role]
	}
	if a.Type == notify.ToEveryone {
		ids = slices.Sorted(maps.Keys(d.Users))
	}
	from, _ := strconv.Atoi(cursor)
	to := min(from+limit, len(ids))
	page := make([]notify.Recipient, 0, to-from)
	for _, id := range ids[from:to] {
		page = append(page, notify.Recipient{UserID: id, Email: d.Users[id]})
	}
	if to == len(ids) {
		return page, "", nil
	}
	return page, strconv.Itoa(to), nil
}

// Locales implements notify.Directory.
func (d *Directory) Locales(context.Context, []string) (map[string]string, error) {
	return map[string]string{}, nil
}

// Phones implements notify.Directory.
func (d *Directory) Phones(context.Context, []string) (map[string]string, error) {
	return map[string]string{}, nil
}

// Emails implements notify.Directory.
func (d *Directory) Emails(_ context.Context, ids []string) (map[string]string, error) {
	if d.Broken {
		return nil, errBroken
	}
	found := map[string]string{}
	for _, id := range ids {
		if email, ok := d.Users[id]; ok {
			found[id] = email
		}
	}
	return found, nil
}
