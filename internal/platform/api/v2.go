package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

// v2Routes are the parts of Cloud Foundry's v2 API that plugins of the cf CLI still read
// through the CLI's plugin interface: organizations, spaces, apps and stacks, by guid or
// name, and the summaries of apps and spaces. Nothing can be changed with them.
func (a *API) v2Routes(g *web.Group) {
	read := web.Scope(readers...)
	get := func(path string, h web.Handler) { g.Handle(http.MethodGet, path, read, h) }

	get("/v2/organizations", v2Lister(a, v2Organizations, nil))
	get("/v2/organizations/{guid}", v2Getter(a, v2Organizations))
	get("/v2/organizations/{guid}/spaces", v2Lister(a, v2Spaces, below(v2Organizations, "organization_guid")))
	get("/v2/spaces", v2Lister(a, v2Spaces, nil))
	get("/v2/spaces/{guid}", v2Getter(a, v2Spaces))
	get("/v2/spaces/{guid}/apps", v2Lister(a, v2Apps, below(v2Spaces, "space_guid")))
	get("/v2/spaces/{guid}/summary", a.v2SpaceSummary)
	get("/v2/apps", v2Lister(a, v2Apps, nil))
	get("/v2/apps/{guid}", v2Getter(a, v2Apps))
	get("/v2/apps/{guid}/summary", a.v2AppSummary)
	get("/v2/apps/{guid}/instances", a.v2Instances)
	get("/v2/apps/{guid}/stats", a.v2Stats)
	get("/v2/stacks", v2Lister(a, v2Stacks, nil))
	get("/v2/stacks/{guid}", v2Getter(a, v2Stacks))
}

// v2Kind describes how one kind of resource is found and presented.
type v2Kind[T any] struct {
	noun, path string
	repo       func(platform.Tx) platform.Repo[T]
	base       func(*T) *platform.Resource
	// filters are the names that q may have, and their fields.
	filters map[string]string
	// entities presents a page.
	entities func(req *request, items []*T) ([]object, error)
}

var (
	v2Organizations = v2Kind[platform.Organization]{
		noun: "Organization", path: "/v2/organizations", repo: platform.Tx.Organizations, base: (*platform.Organization).Base,
		filters: map[string]string{"name": "name"},
		entities: func(_ *request, items []*platform.Organization) ([]object, error) {
			return presentAll(items, func(o *platform.Organization) object {
				status := "active"
				if o.Suspended {
					status = "suspended"
				}
				return object{"name": o.Name, "status": status, "quota_definition_guid": o.QuotaGUID, "spaces_url": "/v2/organizations/" + escape(o.GUID) + "/spaces"}
			}), nil
		},
	}
	v2Spaces = v2Kind[platform.Space]{
		noun: "Space", path: "/v2/spaces", repo: platform.Tx.Spaces, base: (*platform.Space).Base,
		filters:  map[string]string{"name": "name", "organization_guid": "organization_guid"},
		entities: v2SpaceEntities,
	}
	v2Stacks = v2Kind[platform.Stack]{
		noun: "Stack", path: "/v2/stacks", repo: platform.Tx.Stacks, base: (*platform.Stack).Base,
		filters: map[string]string{"name": "name"},
		entities: func(_ *request, items []*platform.Stack) ([]object, error) {
			return presentAll(items, v2StackEntity), nil
		},
	}
)

func v2StackEntity(s *platform.Stack) object {
	return object{"name": s.Name, "description": s.Description}
}

// v2SpaceEntities presents spaces, each with its organization.
func v2SpaceEntities(req *request, items []*platform.Space) ([]object, error) {
	orgs, err := byGUID(req.tx.Organizations(), guidsOf(items, func(s *platform.Space) string { return s.OrgGUID }), (*platform.Organization).Base)
	if err != nil {
		return nil, err
	}
	return presentAll(items, func(s *platform.Space) object {
		out := object{
			"name": s.Name, "organization_guid": s.OrgGUID, "organization_url": "/v2/organizations/" + escape(s.OrgGUID),
			"apps_url": "/v2/spaces/" + escape(s.GUID) + "/apps", "allow_ssh": s.SSHAllowed, "space_quota_definition_guid": orNull(s.QuotaGUID),
		}
		if o := orgs[s.OrgGUID]; o != nil {
			out["organization"] = object{"metadata": v2Metadata("/v2/organizations", &o.Resource), "entity": object{"name": o.Name}}
		}
		return out
	}), nil
}

// byGUID returns the resources of guids.
func byGUID[T any](repo platform.Repo[T], guids []string, base func(*T) *platform.Resource) (map[string]*T, error) {
	found, _, err := repo.List(platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids)}, WithoutSecrets: true})
	out := make(map[string]*T, len(found))
	for _, item := range found {
		out[base(item).GUID] = item
	}
	return out, err
}

func v2Metadata(path string, r *platform.Resource) object {
	return object{"guid": r.GUID, "url": path + "/" + escape(r.GUID), "created_at": timestamp(r.Created), "updated_at": timestamp(r.Updated)}
}

// below restricts a list to what belongs to the resource of the path.
func below[P any](parent v2Kind[P], field string) func(*request) ([]platform.Cond, error) {
	return func(req *request) ([]platform.Cond, error) {
		guid := web.Param(req.r, "guid")
		if _, err := find(req.caller, parent.repo(req.tx), guid, parent.noun); err != nil {
			return nil, err
		}
		return []platform.Cond{platform.In(field, guid)}, nil
	}
}

// present presents a page of resources.
func (k v2Kind[T]) present(req *request, items []*T) ([]object, error) {
	entities, err := k.entities(req, items)
	if err != nil {
		return nil, err
	}
	out := make([]object, len(items))
	for i, item := range items {
		out[i] = object{"metadata": v2Metadata(k.path, k.base(item)), "entity": entities[i]}
	}
	return out, nil
}

func v2Getter[T any](a *API, k v2Kind[T]) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return a.show(w, r, func(req *request) (any, error) {
			item, err := find(req.caller, k.repo(req.tx), web.Param(r, "guid"), k.noun)
			if err != nil {
				return nil, err
			}
			shown, err := k.present(req, []*T{item})
			if err != nil {
				return nil, err
			}
			return shown[0], nil
		})
	}
}

// Paging as in v2.
const v2PerPage, v2MaxPerPage = 50, 100

// v2Lister lists what the caller may see. Parameters that v2 does not know, and those
// that only say how much to inline, have no effect.
func v2Lister[T any](a *API, k v2Kind[T], where func(*request) ([]platform.Cond, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		asked := r.URL.Query()
		q := platform.Query{Reader: callerOf(r).Reader(), Page: 1, PerPage: v2PerPage, WithoutSecrets: true}
		var err error
		if q.Where, err = k.conditions(asked["q"]); err != nil {
			return err
		}
		for name, dest := range map[string]*int{"page": &q.Page, "results-per-page": &q.PerPage} {
			if !asked.Has(name) {
				continue
			}
			n, err := strconv.Atoi(asked.Get(name))
			if err != nil || n < 1 || n > 1<<30 || dest == &q.PerPage && n > v2MaxPerPage {
				return listing.BadQuery("The query parameter is invalid: %s must be a number from 1, results-per-page at most %d", name, v2MaxPerPage)
			}
			*dest = n
		}
		return a.show(w, r, func(req *request) (any, error) {
			if where != nil {
				more, err := where(req)
				if err != nil {
					return nil, err
				}
				q.Where = slices.Concat(q.Where, more)
			}
			page, total, err := k.repo(req.tx).List(q)
			if err != nil {
				return nil, err
			}
			shown, err := k.present(req, page)
			pages := (total + q.PerPage - 1) / q.PerPage
			link := func(n int) any {
				if n < 1 || n > pages || n == q.Page {
					return nil
				}
				asked.Set("page", strconv.Itoa(n))
				asked.Set("results-per-page", strconv.Itoa(q.PerPage))
				return (&url.URL{Path: r.URL.Path, RawQuery: asked.Encode()}).String()
			}
			return object{"total_results": total, "total_pages": pages, "prev_url": link(q.Page - 1), "next_url": link(q.Page + 1), "resources": shown}, err
		})
	}
}

// conditions parses filters: name:VALUE and "name IN VALUE,VALUE", joined by semicolons
// or in parameters of their own.
func (k v2Kind[T]) conditions(filters []string) (out []platform.Cond, err error) {
	for _, filter := range strings.Split(strings.Join(filters, ";"), ";") {
		if filter == "" {
			continue
		}
		name, value, one := strings.Cut(filter, ":")
		if list, values, ok := strings.Cut(filter, " IN "); ok && (!one || len(list) < len(name)) {
			name, value = list, values
		} else if !one {
			return nil, listing.BadQuery("The query parameter is invalid: q must be NAME:VALUE or NAME IN VALUE,VALUE, not %q", filter)
		}
		field, ok := k.filters[name]
		if !ok {
			return nil, listing.BadQuery("The query parameter is invalid: q cannot filter by %q here", name)
		}
		values := []string{value}
		if !one {
			values = strings.Split(value, ",")
		}
		out = append(out, platform.InStrings(field, values))
	}
	return out, nil
}
