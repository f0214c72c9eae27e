package services

import (
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/apps"
	"ingot/internal/console/page"
)

//go:embed pages/*.html
var files embed.FS

// Files are the templates of services.
var Files = page.Files{FS: files, Functions: template.FuncMap{
	"ready": binding.ready, "health": health, "bindable": (*serviceData).bindable,
	"bullets": servicePlan.bullets,
}}

// pages serves the pages of services.
type pages struct{ *page.Console }

// New returns the pages of services.
func New(core *page.Console) page.Part {
	c, platform := pages{core}, page.API(core.Platform)
	return page.Part{
		Pages: map[string]page.Handler{
			"/services/new":         c.newService,
			"/services/{guid}":      c.service,
			"/apps/{guid}/services": c.appServices,
		},
		Screens: map[string]page.Screen{
			"/services": {
				Title: "Services", Section: "services", Template: "servicelist.html", Live: "services",
				LiveAt: page.SameQuery, Load: c.loadServices,
			},
			"/services/marketplace": {
				Title: "Marketplace", Section: "services", Template: "marketplace.html", Load: c.marketplace,
				Crumbs: []page.Crumb{{Name: "Services", Link: page.Path + "/services"}},
			},
		},
		Changes: map[string]page.Handler{
			"/services/new":           c.createService,
			"/services/{guid}/bind":   c.bindService,
			"/services/{guid}/update": c.updateService,
			"/services/{guid}/delete": c.deleteService,
			"/services/{guid}/share": platform.Edit(page.Edit{
				Method: http.MethodPost, Path: "/v3/service_instances/{guid}/relationships/shared_spaces",
				Body: func(form url.Values) (any, error) { return cfapi.RelateAll(form.Get("space")), nil },
				To:   "/services/{guid}", Said: "shared", Failed: c.serviceFailed,
			}),
			"/services/{guid}/unshare": platform.Edit(page.Edit{
				Method: http.MethodDelete, Path: "/v3/service_instances/{guid}/relationships/shared_spaces/{space}",
				To: "/services/{guid}", Said: "unshared", Failed: c.serviceFailed,
			}),
			"/services/{guid}/keys/create":             c.createKey,
			"/services/{guid}/bindings/{binding}/show": c.showCredentials,
			// Unbinds an app, or deletes a key.
			"/services/{guid}/bindings/{binding}/drop": platform.Edit(page.Edit{
				Method: http.MethodDelete, Path: "/v3/service_credential_bindings/{binding}",
				To: "/services/{guid}", Said: "unbound", Failed: c.serviceFailed,
			}),
			"/apps/{guid}/services/bind": c.bindToApp,
			"/apps/{guid}/services/{binding}/unbind": platform.Edit(page.Edit{
				Method: http.MethodDelete, Path: "/v3/service_credential_bindings/{binding}",
				To: "/apps/{guid}/services", Said: "unbound",
			}),
		},
		Said: map[string]string{
			"service": "The service instance is being created.", "updated": "The update has begun.",
			"deleting": "The service instance is being deleted.", "bound": "Bound. Restart the app to use it.",
			"unbound": "It is being deleted. Restart an app that was bound.", "key": "The key is being created.",
			"shared":   "The service instance is shared.",
			"unshared": "The service instance is not shared with the space any more.",
		},
		Live: c.view,
	}
}

// view returns the live part of the page of a service instance.
func (c pages) view(r *http.Request, s *page.Session, name string) *page.View {
	guid, isService := strings.CutPrefix(name, "services/")
	if !isService || guid == "" || strings.Contains(guid, "/") {
		return nil
	}
	return &page.View{Fragment: "service-live", Load: func() (any, error) { return c.loadService(r, s, guid) }}
}

// health is the state of an operation for a badge.
func health(o *cfapi.Operation) string {
	switch {
	case o == nil || o.State == "succeeded":
		return "running"
	case o.Running():
		return "starting"
	}
	return "crashed"
}

// managed reports whether a broker provides the instance.
func (r Row) managed() bool { return r.Type == "managed" }

// serviceNames are the resources that service instances refer to.
type serviceNames struct {
	Plans     []cfapi.Plan     `json:"service_plans"`
	Offerings []cfapi.Offering `json:"service_offerings"`
	Brokers   []cfapi.Thing    `json:"service_brokers"`
	Spaces    []cfapi.Space    `json:"spaces"`
	Orgs      []cfapi.Thing    `json:"organizations"`
}

// serviceFields requests serviceNames.
func serviceFields() url.Values {
	return url.Values{
		"fields[service_plan]":                                 {"guid,name,relationships.service_offering"},
		"fields[service_plan.service_offering]":                {"guid,name,relationships.service_broker"},
		"fields[service_plan.service_offering.service_broker]": {"guid,name"},
		"fields[space]":                                        {"guid,name,relationships.organization"},
		"fields[space.organization]":                           {"guid,name"},
	}
}

func byGUID[T interface{ ID() string }](of []T, guid string) (found T) {
	if i := slices.IndexFunc(of, func(one T) bool { return one.ID() == guid }); i >= 0 {
		found = of[i]
	}
	return found
}

// Row is a service instance with names.
type Row struct {
	cfapi.ServiceInstance
	Plan, Offering, Broker, OfferingGUID string
	Space, Org                           string
	Apps                                 []cfapi.App // that are bound
}

func (n *serviceNames) row(i cfapi.ServiceInstance) Row {
	plan := byGUID(n.Plans, i.Relationships.Plan.GUID())
	offering := byGUID(n.Offerings, plan.Relationships.Offering.GUID())
	in := byGUID(n.Spaces, i.Relationships.Space.GUID())
	return Row{
		ServiceInstance: i, Plan: plan.Name, Offering: cmp.Or(offering.Name, "user-provided"), OfferingGUID: offering.GUID,
		Broker: byGUID(n.Brokers, offering.Relationships.Broker.GUID()).Name,
		Space:  in.Name, Org: byGUID(n.Orgs, in.Relationships.Organization.GUID()).Name,
	}
}

// instancesOf returns the service instances of a query, by name.
func instancesOf(c *page.Caller, q url.Values) ([]Row, error) {
	for key, values := range serviceFields() {
		q[key] = values
	}
	q.Set("order_by", "name")
	l, err := page.AllWith[cfapi.ServiceInstance, serviceNames](c, "/v3/service_instances", q)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, 0, len(l.Resources))
	for _, i := range l.Resources {
		rows = append(rows, l.Included.row(i))
	}
	return rows, nil
}

type binding struct {
	cfapi.Binding
	App     cfapi.App `json:"-"`
	Command string    `json:"-"` // that deletes it
	Show    string    `json:"-"` // the command that shows the credentials of a key
}

// ready reports whether the binding has credentials.
func (b binding) ready() bool {
	return b.Last == nil || b.Last.State == "succeeded" || b.Last.Type != "create"
}

// bindingsOf returns the bindings and keys of a query, with the apps that are bound.
func bindingsOf(c *page.Caller, q url.Values) ([]binding, error) {
	q.Set("include", "app")
	l, err := page.AllWith[binding, struct {
		Apps []cfapi.App `json:"apps"`
	}](c, "/v3/service_credential_bindings", q)
	if err != nil {
		return nil, err
	}
	apps := map[string]cfapi.App{}
	for _, a := range l.Included.Apps {
		apps[a.GUID] = a
	}
	for i := range l.Resources {
		l.Resources[i].App = apps[l.Resources[i].Relationships.App.GUID()]
	}
	return l.Resources, nil
}

type servicesData struct {
	Rows       []Row
	Query      string
	Space      string // its guid
	SpaceName  string
	Pager      page.Pager
	Command    string
	MayDevelop bool // in some space
}

// loadServices is GET /console/services: ?q= part of a name or offering, ?space= guid, ?page=.
func (c pages) loadServices(r *http.Request, s *page.Session) (any, error) {
	call, q := c.Platform(r, s), r.URL.Query()
	data := &servicesData{Query: strings.TrimSpace(q.Get("q")), Space: q.Get("space"),
		Command: page.Command("cf", "services")}
	var bound []binding
	var spaces []apps.Developed
	filter := url.Values{}
	if data.Space != "" {
		filter.Set("space_guids", data.Space)
	}
	err := page.Together(
		func() (err error) { data.Rows, err = instancesOf(call, filter); return err },
		func() (err error) { bound, err = bindingsOf(call, url.Values{"type": {"app"}}); return err },
		func() (err error) { spaces, err = apps.DevelopedSpaces(call); return err },
	)
	if err != nil {
		return nil, err
	}
	data.MayDevelop = len(spaces) > 0
	apps := map[string][]cfapi.App{}
	for _, b := range bound {
		if b.App.GUID != "" {
			to := b.Relationships.Instance.GUID()
			apps[to] = append(apps[to], b.App)
		}
	}
	data.Rows = slices.DeleteFunc(data.Rows, func(row Row) bool {
		return !page.Matches(row.Name, data.Query) && !page.Matches(row.Offering, data.Query)
	})
	for i := range data.Rows {
		row := &data.Rows[i]
		row.Apps = apps[row.GUID]
		if row.Relationships.Space.GUID() == data.Space {
			data.SpaceName = row.Space
		}
	}
	data.Pager = page.NewPager(r, len(data.Rows), page.PerPage, "service instances")
	data.Pager.At = page.Path + "/services"
	data.Rows = page.Visible(data.Pager, data.Rows, page.PerPage)
	return data, nil
}

// mayDevelop reports whether the user may change service instances of a space. The API
// decides; this only says what to show.
func mayDevelop(c *page.Caller, space string) (bool, error) {
	if c.Session.Admin() {
		return true, nil
	}
	roles, err := page.All[cfapi.Role](c, "/v3/roles", url.Values{"user_guids": {c.Session.UserID}, "space_guids": {space},
		"types": {"space_developer"}})
	return len(roles) > 0, err
}

// Find returns service instances whose name or offering contains a text.
func Find(c *page.Caller, text string) ([]Row, error) {
	rows, err := instancesOf(c, url.Values{})
	rows = slices.DeleteFunc(rows, func(row Row) bool {
		return !page.Matches(row.Name, text) &&
			!page.Matches(row.Offering, text)
	})
	return rows[:min(len(rows), page.PerPage)], err
}
