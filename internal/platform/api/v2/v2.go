package v2

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

// API serves the parts of Cloud Foundry's v2 API that plugins of the cf CLI still read
// through the CLI's plugin interface: organizations, spaces, apps and stacks, by guid or
// name, and the summaries of apps and spaces. Nothing can be changed with them.
type API struct {
	*rest.Server
	Runtime apps.Runtime
}

// Routes registers the routes with their authorization decisions.
func (a *API) Routes(g *web.Group) {
	get := func(path string, h web.Handler) { g.Handle(http.MethodGet, path, rest.Read, h) }

	get("/v2/organizations", lister(a, orgKind, nil))
	get("/v2/organizations/{guid}", getter(a, orgKind))
	get("/v2/organizations/{guid}/spaces", lister(a, spaceKind, below(orgKind, "organization_guid")))
	get("/v2/spaces", lister(a, spaceKind, nil))
	get("/v2/spaces/{guid}", getter(a, spaceKind))
	get("/v2/spaces/{guid}/apps", lister(a, appKind, below(spaceKind, "space_guid")))
	get("/v2/spaces/{guid}/summary", rest.Viewer(a.Server, spaceKind.find, spaceSummary))
	get("/v2/apps", lister(a, appKind, nil))
	get("/v2/apps/{guid}", getter(a, appKind))
	get("/v2/apps/{guid}/summary", rest.Viewer(a.Server, appKind.find, appSummary))
	get("/v2/apps/{guid}/instances", a.instances)
	get("/v2/apps/{guid}/stats", a.stats)
	get("/v2/stacks", lister(a, stackKind, nil))
	get("/v2/stacks/{guid}", getter(a, stackKind))
}

// kind describes how one kind of resource is found and presented.
type kind[T any] struct {
	noun, path string
	repo       func(platform.Tx) platform.Repo[T]
	base       func(*T) *platform.Resource
	// filters are the names that q may have, and their fields.
	filters map[string]string
	// entities presents a page.
	entities func(req *rest.Request, items []*T) ([]rest.Object, error)
}

var (
	orgKind = kind[platform.Organization]{
		noun: "Organization", path: "/v2/organizations", repo: platform.Tx.Organizations, base: (*platform.Organization).Base,
		filters: map[string]string{"name": "name"},
		entities: func(_ *rest.Request, items []*platform.Organization) ([]rest.Object, error) {
			return rest.PresentAll(items, func(o *platform.Organization) rest.Object {
				status := "active"
				if o.Suspended {
					status = "suspended"
				}
				return rest.Object{"name": o.Name, "status": status, "quota_definition_guid": o.QuotaGUID,
					"spaces_url": "/v2/organizations/" + rest.Escape(o.GUID) + "/spaces"}
			}), nil
		},
	}
	spaceKind = kind[platform.Space]{
		noun: "Space", path: "/v2/spaces", repo: platform.Tx.Spaces, base: (*platform.Space).Base,
		filters:  map[string]string{"name": "name", "organization_guid": "organization_guid"},
		entities: spaceEntities,
	}
	stackKind = kind[platform.Stack]{
		noun: "Stack", path: "/v2/stacks", repo: platform.Tx.Stacks, base: (*platform.Stack).Base,
		filters: map[string]string{"name": "name"},
		entities: func(_ *rest.Request, items []*platform.Stack) ([]rest.Object, error) {
			return rest.PresentAll(items, stackEntity), nil
		},
	}
)

func stackEntity(s *platform.Stack) rest.Object {
	return rest.Object{"name": s.Name, "description": s.Description}
}

// spaceEntities presents spaces, each with its organization.
func spaceEntities(req *rest.Request, items []*platform.Space) ([]rest.Object, error) {
	orgs, err := rest.ByGUID(req.Tx.Organizations(), items, func(s *platform.Space) string { return s.OrgGUID })
	if err != nil {
		return nil, err
	}
	return rest.PresentAll(items, func(s *platform.Space) rest.Object {
		out := rest.Object{
			"name": s.Name, "organization_guid": s.OrgGUID, "organization_url": "/v2/organizations/" + rest.Escape(s.OrgGUID),
			"apps_url": "/v2/spaces/" + rest.Escape(s.GUID) + "/apps", "allow_ssh": s.SSHAllowed,
			"space_quota_definition_guid": rest.OrNull(s.QuotaGUID),
		}
		if o := orgs[s.OrgGUID]; o != nil {
			out["organization"] = rest.Object{"metadata": metadata("/v2/organizations", &o.Resource),
				"entity": rest.Object{"name": o.Name}}
		}
		return out
	}), nil
}

func metadata(path string, r *platform.Resource) rest.Object {
	return rest.Object{"guid": r.GUID, "url": path + "/" + rest.Escape(r.GUID), "created_at": rest.Timestamp(r.Created),
		"updated_at": rest.Timestamp(r.Updated)}
}

// find returns the resource of the path if the caller may see it.
func (k kind[T]) find(req *rest.Request) (*T, error) {
	return rest.Find(req.Caller, k.repo(req.Tx), req.Param("guid"), k.noun)
}

// below restricts a list to what belongs to the resource of the path.
func below[P any](parent kind[P], field string) func(*rest.Request) ([]platform.Cond, error) {
	return func(req *rest.Request) ([]platform.Cond, error) {
		_, err := parent.find(req)
		return []platform.Cond{platform.In(field, req.Param("guid"))}, err
	}
}

// present presents a page of resources.
func (k kind[T]) present(req *rest.Request, items []*T) ([]rest.Object, error) {
	entities, err := k.entities(req, items)
	if err != nil {
		return nil, err
	}
	out := make([]rest.Object, len(items))
	for i, item := range items {
		out[i] = rest.Object{"metadata": metadata(k.path, k.base(item)), "entity": entities[i]}
	}
	return out, nil
}

func getter[T any](a *API, k kind[T]) web.Handler {
	return rest.Viewer(a.Server, k.find, func(req *rest.Request, item *T) (any, error) {
		shown, err := k.present(req, []*T{item})
		if err != nil {
			return nil, err
		}
		return shown[0], nil
	})
}

// Paging as in v2.
const perPage, maxPerPage = 50, 100

// lister lists what the caller may see. Parameters that v2 does not know, and those
// that only say how much to inline, have no effect.
func lister[T any](a *API, k kind[T], where func(*rest.Request) ([]platform.Cond, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		asked := r.URL.Query()
		q := platform.Query{Reader: rest.CallerOf(r).Reader(), Page: 1, PerPage: perPage, WithoutSecrets: true}
		var err error
		if q.Where, err = k.conditions(asked["q"]); err != nil {
			return err
		}
		for name, dest := range map[string]*int{"page": &q.Page, "results-per-page": &q.PerPage} {
			if !asked.Has(name) {
				continue
			}
			n, err := strconv.Atoi(asked.Get(name))
			if err != nil || n < 1 || n > 1<<30 || dest == &q.PerPage && n > maxPerPage {
				return listing.BadQuery("%s must be a number from 1, results-per-page at most %d", name, maxPerPage)
			}
			*dest = n
		}
		return a.Show(w, r, func(req *rest.Request) (any, error) {
			if where != nil {
				more, err := where(req)
				if err != nil {
					return nil, err
				}
				q.Where = slices.Concat(q.Where, more)
			}
			page, total, err := k.repo(req.Tx).List(q)
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
			return rest.Object{"total_results": total, "total_pages": pages, "prev_url": link(q.Page - 1),
				"next_url": link(q.Page + 1), "resources": shown}, err
		})
	}
}

// conditions parses filters: name:VALUE and "name IN VALUE,VALUE", joined by semicolons
// or in their own parameters.
func (k kind[T]) conditions(filters []string) (out []platform.Cond, err error) {
	for _, filter := range strings.Split(strings.Join(filters, ";"), ";") {
		if filter == "" {
			continue
		}
		name, value, one := strings.Cut(filter, ":")
		if list, values, ok := strings.Cut(filter, " IN "); ok && (!one || len(list) < len(name)) {
			name, value = list, values
		} else if !one {
			return nil, listing.BadQuery("q must be NAME:VALUE or NAME IN VALUE,VALUE, not %q", filter)
		}
		field, ok := k.filters[name]
		if !ok {
			return nil, listing.BadQuery("q cannot filter by %q here", name)
		}
		values := []string{value}
		if !one {
			values = strings.Split(value, ",")
		}
		out = append(out, platform.InStrings(field, values))
	}
	return out, nil
}
