package console

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// serviceRoutes adds the pages of services.
func (c *Console) serviceRoutes(g area) {
	g.pages(c, map[string]handler{
		"/services":             c.services,
		"/services/marketplace": c.marketplace,
		"/services/new":         c.newService,
		"/services/{guid}":      c.service,
		"/apps/{guid}/services": c.appServices,
	})
	g.changes(c, map[string]handler{
		"/services/new":                            c.createService,
		"/services/{guid}/bind":                    c.bindService,
		"/services/{guid}/update":                  c.updateService,
		"/services/{guid}/delete":                  c.deleteService,
		"/services/{guid}/share":                   c.shareService,
		"/services/{guid}/unshare":                 c.unshareService,
		"/services/{guid}/keys/create":             c.createKey,
		"/services/{guid}/bindings/{binding}/show": c.showCredentials,
		"/services/{guid}/bindings/{binding}/drop": c.deleteBinding,
		"/apps/{guid}/services/bind":               c.bindToApp,
		"/apps/{guid}/services/{binding}/unbind":   c.unbindFromApp,
	})
}

type operation struct {
	Type        string    `json:"type"`
	State       string    `json:"state"`
	Description string    `json:"description"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
}

// Running reports whether the operation is not finished.
func (o *operation) Running() bool {
	return o != nil && (o.State == "in progress" || o.State == "initial")
}

// health is the state for a badge.
func (o *operation) health() string {
	switch {
	case o == nil || o.State == "succeeded":
		return "running"
	case o.Running():
		return "starting"
	}
	return "crashed"
}

type serviceInstance struct {
	GUID             string     `json:"guid"`
	Name             string     `json:"name"`
	Type             string     `json:"type"`
	Tags             []string   `json:"tags"`
	CreatedAt        time.Time  `json:"created_at"`
	Last             *operation `json:"last_operation"`
	UpgradeAvailable bool       `json:"upgrade_available"`
	DashboardURL     string     `json:"dashboard_url"`
	SyslogDrainURL   string     `json:"syslog_drain_url"`
	RouteServiceURL  string     `json:"route_service_url"`
	Relationships    struct {
		Space relation `json:"space"`
		Plan  relation `json:"service_plan"`
	} `json:"relationships"`
}

func (i *serviceInstance) managed() bool { return i.Type == "managed" }

type namedResource struct {
	GUID          string `json:"guid"`
	Name          string `json:"name"`
	Relationships struct {
		Offering     relation `json:"service_offering"`
		Broker       relation `json:"service_broker"`
		Organization relation `json:"organization"`
	} `json:"relationships"`
}

// serviceNames are the names of what service instances refer to.
type serviceNames struct {
	Plans     []namedResource `json:"service_plans"`
	Offerings []namedResource `json:"service_offerings"`
	Brokers   []namedResource `json:"service_brokers"`
	Spaces    []namedResource `json:"spaces"`
	Orgs      []namedResource `json:"organizations"`
}

// serviceFields requests serviceNames.
func serviceFields() url.Values {
	return url.Values{
		"fields[service_plan]": {"guid,name,relationships.service_offering"}, "fields[service_plan.service_offering]": {"guid,name,relationships.service_broker"},
		"fields[service_plan.service_offering.service_broker]": {"guid,name"},
		"fields[space]": {"guid,name,relationships.organization"}, "fields[space.organization]": {"guid,name"},
	}
}

func byGUID(of []namedResource, guid string) namedResource {
	if i := slices.IndexFunc(of, func(n namedResource) bool { return n.GUID == guid }); i >= 0 {
		return of[i]
	}
	return namedResource{}
}

// serviceRow is a service instance with names.
type serviceRow struct {
	serviceInstance
	Plan, Offering, Broker, OfferingGUID string
	Space, Org                           string
	Apps                                 []app // that are bound
}

func (n *serviceNames) row(i serviceInstance) serviceRow {
	plan := byGUID(n.Plans, i.Relationships.Plan.Data.GUID)
	offering := byGUID(n.Offerings, plan.Relationships.Offering.Data.GUID)
	in := byGUID(n.Spaces, i.Relationships.Space.Data.GUID)
	return serviceRow{
		serviceInstance: i, Plan: plan.Name, Offering: cmp.Or(offering.Name, "user-provided"), OfferingGUID: offering.GUID,
		Broker: byGUID(n.Brokers, offering.Relationships.Broker.Data.GUID).Name,
		Space:  in.Name, Org: byGUID(n.Orgs, in.Relationships.Organization.Data.GUID).Name,
	}
}

// instancesOf returns the service instances of a query, by name.
func (c *caller) instancesOf(q url.Values) ([]serviceRow, error) {
	for key, values := range serviceFields() {
		q[key] = values
	}
	q.Set("per_page", "5000")
	q.Set("order_by", "name")
	var l included[serviceInstance, serviceNames]
	if err := c.get(&l, "/v3/service_instances", q); err != nil {
		return nil, err
	}
	rows := make([]serviceRow, 0, len(l.Resources))
	for _, i := range l.Resources {
		rows = append(rows, l.Included.row(i))
	}
	return rows, nil
}

type binding struct {
	GUID          string     `json:"guid"`
	Name          string     `json:"name"`
	Type          string     `json:"type"`
	CreatedAt     time.Time  `json:"created_at"`
	Last          *operation `json:"last_operation"`
	Relationships struct {
		App      relation `json:"app"`
		Instance relation `json:"service_instance"`
	} `json:"relationships"`
	App     app    `json:"-"`
	Command string `json:"-"` // that deletes it
	Show    string `json:"-"` // the command that shows the credentials of a key
}

// ready reports whether the binding has credentials.
func (b binding) ready() bool {
	return b.Last == nil || b.Last.State == "succeeded" || b.Last.Type != "create"
}

// bindings returns the bindings and keys of a query, with the apps that are bound.
func (c *caller) bindings(q url.Values) ([]binding, error) {
	q.Set("include", "app")
	q.Set("per_page", "5000")
	var l included[binding, struct {
		Apps []app `json:"apps"`
	}]
	if err := c.get(&l, "/v3/service_credential_bindings", q); err != nil {
		return nil, err
	}
	apps := map[string]app{}
	for _, a := range l.Included.Apps {
		apps[a.GUID] = a
	}
	for i := range l.Resources {
		l.Resources[i].App = apps[l.Resources[i].Relationships.App.Data.GUID]
	}
	return l.Resources, nil
}

type servicesData struct {
	Rows       []serviceRow
	Query      string
	Space      string // its guid
	SpaceName  string
	Pager      pager
	Command    string
	MayDevelop bool // in some space
}

// services is GET /console/services: ?q= part of a name or offering, ?space= guid, ?page=.
func (c *Console) services(w http.ResponseWriter, r *http.Request, s *Session) error {
	data, err := c.loadServices(r, s)
	if err != nil {
		return err
	}
	p := page{Title: "Services", Section: "services", Live: "services", Data: data}
	if r.URL.RawQuery != "" {
		p.Live += "?" + r.URL.RawQuery
	}
	return c.show(w, r, s, http.StatusOK, "servicelist.html", p)
}

func (c *Console) loadServices(r *http.Request, s *Session) (*servicesData, error) {
	call, q := c.platform(r, s), r.URL.Query()
	data := &servicesData{Query: strings.TrimSpace(q.Get("q")), Space: q.Get("space"), Command: command("cf", "services")}
	var bound []binding
	var spaces []developed
	filter := url.Values{}
	if data.Space != "" {
		filter.Set("space_guids", data.Space)
	}
	err := together(
		func() (err error) { data.Rows, err = call.instancesOf(filter); return err },
		func() (err error) { bound, err = call.bindings(url.Values{"type": {"app"}}); return err },
		func() (err error) { spaces, err = call.developedSpaces(); return err },
	)
	if err != nil {
		return nil, err
	}
	data.MayDevelop = len(spaces) > 0
	apps := map[string][]app{}
	for _, b := range bound {
		if b.App.GUID != "" {
			to := b.Relationships.Instance.Data.GUID
			apps[to] = append(apps[to], b.App)
		}
	}
	data.Rows = slices.DeleteFunc(data.Rows, func(row serviceRow) bool { return !matches(row.Name, data.Query) && !matches(row.Offering, data.Query) })
	for i := range data.Rows {
		row := &data.Rows[i]
		row.Apps = apps[row.GUID]
		if row.Relationships.Space.Data.GUID == data.Space {
			data.SpaceName = row.Space
		}
	}
	data.Pager = newPager(r, len(data.Rows), perPage, "service instances")
	data.Pager.at = Path + "/services"
	data.Rows = part(data.Pager, data.Rows, perPage)
	return data, nil
}

// developed is a space in which the user may create service instances.
type developed struct{ GUID, Name, Org string }

// developedSpaces returns the spaces in which the user is a developer; all for
// administrators.
func (c *caller) developedSpaces() ([]developed, error) {
	var l included[space, struct {
		Orgs []organization `json:"organizations"`
	}]
	var roles []role
	err := together(
		func() error {
			return c.get(&l, "/v3/spaces", url.Values{"include": {"organization"}, "per_page": {"5000"}, "order_by": {"name"}})
		},
		func() (err error) {
			if !c.session.admin() {
				roles, err = all[role](c, "/v3/roles", url.Values{"user_guids": {c.session.UserID}, "types": {"space_developer"}})
			}
			return err
		},
	)
	if err != nil {
		return nil, err
	}
	orgs := map[string]string{}
	for _, o := range l.Included.Orgs {
		orgs[o.GUID] = o.Name
	}
	var out []developed
	for _, in := range l.Resources {
		if c.session.admin() || slices.ContainsFunc(roles, func(r role) bool { return r.Relationships.Space.Data.GUID == in.GUID }) {
			out = append(out, developed{in.GUID, in.Name, orgs[in.Relationships.Organization.Data.GUID]})
		}
	}
	slices.SortStableFunc(out, func(a, b developed) int { return strings.Compare(a.Org, b.Org) })
	return out, nil
}

// mayDevelop reports whether the user may change service instances of a space. The API
// decides; this only says what to show.
func (c *caller) mayDevelop(space string) (bool, error) {
	if c.session.admin() {
		return true, nil
	}
	roles, err := all[role](c, "/v3/roles", url.Values{"user_guids": {c.session.UserID}, "space_guids": {space}, "types": {"space_developer"}})
	return len(roles) > 0, err
}

// findServices returns service instances whose name or offering contains a text.
func (c *caller) findServices(text string) ([]serviceRow, error) {
	rows, err := c.instancesOf(url.Values{})
	rows = slices.DeleteFunc(rows, func(row serviceRow) bool { return !matches(row.Name, text) && !matches(row.Offering, text) })
	return rows[:min(len(rows), perPage)], err
}
