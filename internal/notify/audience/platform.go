package audience

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/uaaclient"
	"ingot/internal/notify"
)

// resource is the part of a space or organization that this package reads.
type resource struct {
	GUID          string `json:"guid"`
	Name          string `json:"name"`
	Relationships struct {
		Organization struct {
			Data struct {
				GUID string `json:"guid"`
			} `json:"data"`
		} `json:"organization"`
	} `json:"relationships"`
}

func (d *Directory) resolveSpace(ctx context.Context, a notify.Audience) (notify.Audience, error) {
	space, err := d.resource(ctx, "Space", "/v3/spaces/", a.ID)
	if err != nil {
		return a, err
	}
	a.SpaceName, a.OrgID = space.Name, space.Relationships.Organization.Data.GUID
	org, err := d.resource(ctx, "Organization", "/v3/organizations/", a.OrgID)
	a.OrgName = org.Name
	return a, err
}

func (d *Directory) resolveOrg(ctx context.Context, a notify.Audience) (notify.Audience, error) {
	if _, ok := orgRoles[a.Role]; !ok {
		return a, fault.New(fault.Unprocessable, `"role" must be "OrgManager", "OrgAuditor", "BillingManager" or unset`)
	}
	org, err := d.resource(ctx, "Organization", "/v3/organizations/", a.ID)
	a.OrgID, a.OrgName = a.ID, org.Name
	return a, err
}

// resource reads a space or organization.
func (d *Directory) resource(ctx context.Context, noun, path, guid string) (resource, error) {
	missing := fault.New(fault.NotFound, "CloudController Failure: %s %q could not be found", noun, guid)
	// Such a guid would change the path.
	if guid == "" || guid == "." || guid == ".." {
		return resource{}, missing
	}
	var p resource
	err := d.ask(ctx, path+url.PathEscape(guid), &p)
	if uaaclient.StatusOf(err) == http.StatusNotFound {
		missing.Err = err
		return p, missing
	}
	return p, platformFault(err)
}

var errNoPlatform = errors.New("no platform is configured")

func (d *Directory) ask(ctx context.Context, path string, into any) error {
	if d.o.PlatformURL == "" {
		return errNoPlatform
	}
	return d.o.UAA.Fetch(ctx, d.o.HTTP, d.o.PlatformURL+path, into)
}

// platformFault converts a failed request to an error for the sender, with the
// original service's message where it has one.
func platformFault(err error) error {
	status := uaaclient.StatusOf(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoPlatform):
		return fault.Wrap(err, fault.Unavailable,
			"This notification service is not connected to a platform, so it cannot send to spaces and organizations. Ask the "+
				"operator to configure the platform's URL.")
	case status == 0 || status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
		return fault.Wrap(err, fault.Unavailable, "CloudController Failure: the platform is unavailable. Try again later.").
			After(retryAfter)
	}
	return fault.Wrap(err, fault.BadGateway, "CloudController Failure (0): unexpected status: %d ", status)
}

const (
	// rolesAtOnce is the maximum page size of the v3 API; rolesAtLeast prevents
	// many requests for small limits.
	rolesAtOnce  = 5000
	rolesAtLeast = 50

	spaceRoles = "space_developer,space_manager,space_auditor,space_supporter"
)

// orgRoles maps the roles of the notification API to those of the v3 API.
var orgRoles = map[string]string{
	"":               "organization_user,organization_manager,organization_auditor,organization_billing_manager",
	"OrgManager":     "organization_manager",
	"OrgAuditor":     "organization_auditor",
	"BillingManager": "organization_billing_manager",
}

// rolesCursor is a position in a list of roles, written "page.size.total". The
// page size must not change between pages. The total is that of the previous
// page: when there are fewer now, later roles have moved forward and pages are
// read again.
type rolesCursor struct{ page, size, total int }

func (c rolesCursor) String() string { return fmt.Sprintf("%d.%d.%d", c.page, c.size, c.total) }

func parseRolesCursor(s string, limit int) (c rolesCursor, err error) {
	if s == "" {
		return rolesCursor{1, min(max(limit, rolesAtLeast), rolesAtOnce), 0}, nil
	}
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return c, badCursor(s)
	}
	for i, into := range []*int{&c.page, &c.size, &c.total} {
		if *into, err = strconv.Atoi(parts[i]); err != nil {
			return c, badCursor(s)
		}
	}
	if c.page < 1 || c.size < 1 || c.size > rolesAtOnce || c.total < 0 {
		return c, badCursor(s)
	}
	return c, nil
}

// rolesPage reads the users with a role in a space or organization. A user with
// several roles appears once per page.
func (d *Directory) rolesPage(ctx context.Context, a notify.Audience, cursor string, limit int) ([]notify.Recipient,
	string, error) {
	at, err := parseRolesCursor(cursor, limit)
	if err != nil {
		return nil, "", err
	}
	query := url.Values{"page": {strconv.Itoa(at.page)}, "per_page": {strconv.Itoa(at.size)}, "order_by": {"created_at"}}
	// A comma in a guid would separate two guids.
	if strings.Contains(a.ID, ",") {
		return nil, "", nil
	}
	if a.Type == notify.ToSpace {
		query.Set("space_guids", a.ID)
		query.Set("types", spaceRoles)
	} else {
		types, ok := orgRoles[a.Role]
		if !ok {
			return nil, "", fault.New(fault.Unprocessable,
				`"role" must be "OrgManager", "OrgAuditor", "BillingManager" or unset`)
		}
		query.Set("organization_guids", a.ID)
		query.Set("types", types)
	}
	var page struct {
		Pagination struct {
			Total int       `json:"total_results"`
			Pages int       `json:"total_pages"`
			Next  *struct{} `json:"next"`
		} `json:"pagination"`
		Resources []struct {
			Relationships struct {
				User struct {
					Data struct {
						GUID string `json:"guid"`
					} `json:"data"`
				} `json:"user"`
			} `json:"relationships"`
		} `json:"resources"`
	}
	if err := d.ask(ctx, "/v3/roles?"+query.Encode(), &page); err != nil {
		return nil, "", platformFault(err)
	}
	out := make([]notify.Recipient, 0, len(page.Resources))
	seen := make(map[string]bool, len(page.Resources))
	for _, r := range page.Resources {
		if id := r.Relationships.User.Data.GUID; id != "" && !seen[id] {
			seen[id] = true
			out = append(out, notify.Recipient{UserID: id})
		}
	}
	next := rolesCursor{at.page + 1, at.size, page.Pagination.Total}
	if gone := at.total - page.Pagination.Total; at.total > 0 && gone > 0 && at.page > 1 {
		next.page = max(1, at.page-(gone+at.size-1)/at.size)
		return out, next.String(), nil
	}
	if page.Pagination.Next == nil {
		return out, "", nil
	}
	return out, next.String(), nil
}
