package services

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/apps"
	"ingot/internal/console/page"
)

// serviceData is the page of a service instance. Its first part is live.
type serviceData struct {
	Instance   Row
	Bindings   []binding // of apps
	Keys       []binding
	MayDevelop bool

	Plan       *servicePlan // nil if it is user-provided, or the user may not see its plan
	Offering   *offering
	Plans      []servicePlan // that it can be changed to
	Apps       []cfapi.App   // that are not bound
	Shared     []apps.Developed
	ShareTo    []apps.Developed
	Parameters string // as JSON, on demand
	Update     *schemaForm
	Bind       *schemaForm
	Typed      url.Values // what was typed into a form that has a problem
	Commands   serviceCommands
}

type serviceCommands struct{ Service, Parameters, Bind, CreateKey, Update, Upgrade, Delete, Share, Unshare string }

// bindable reports whether apps can be bound and keys created.
func (d *serviceData) bindable() bool {
	return d.Plan == nil && !d.Instance.managed() || d.Plan != nil && d.Plan.Catalog.Features.Bindable
}

// Is returns the typed value of a field.
func (d *serviceData) Is(name string) string { return d.Typed.Get(name) }

// service is GET /console/services/GUID: ?parameters=1 shows the parameters.
func (c pages) service(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	data, err := c.loadServicePage(r, s)
	if err != nil {
		return err
	}
	return c.showService(w, r, s, http.StatusOK, "", data)
}

func (c pages) showService(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string,
	data *serviceData) error {
	live := "services/" + url.PathEscape(data.Instance.GUID)
	if problem != "" {
		live = "" // this is the response to a form: the page has another address
	}
	return c.Show(w, r, s, status, "service.html", page.Page{
		Title: data.Instance.Name, Section: "services", Live: live, Data: data, Problem: problem,
		Crumbs: []page.Crumb{{Name: "Services", Link: page.Path + "/services"},
			{Name: data.Instance.Org + " / " + data.Instance.Space, Link: page.Path + "/services?space=" +
				url.QueryEscape(data.Instance.Relationships.Space.GUID())}},
	})
}

// serviceFailed shows the page of a service instance again, with a problem and what was typed.
func (c pages) serviceFailed(w http.ResponseWriter, r *http.Request, s *page.Session, err error) error {
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	data, loading := c.loadServicePage(r, s)
	if loading != nil {
		return loading
	}
	data.Typed = r.PostForm
	for _, form := range []*schemaForm{data.Update, data.Bind} {
		if form != nil {
			form.read(r.PostForm)
		}
	}
	return c.showService(w, r, s, status, text, data)
}

// loadService loads the live part of the page of a service instance.
func (c pages) loadService(r *http.Request, s *page.Session, guid string) (*serviceData, error) {
	call, d := c.Platform(r, s), &serviceData{}
	var answer struct {
		cfapi.ServiceInstance
		Included serviceNames `json:"included"`
	}
	if err := call.Get(&answer, "/v3/service_instances/"+url.PathEscape(guid), serviceFields()); err != nil {
		if page.Gone(err) {
			return nil, fault.New(fault.NotFound, "This service instance does not exist, or you have no role in its space.")
		}
		return nil, err
	}
	d.Instance = answer.Included.row(answer.ServiceInstance)
	var all []binding
	err := page.Together(
		func() (err error) {
			all, err = bindingsOf(call, url.Values{"service_instance_guids": {d.Instance.GUID}, "order_by": {"created_at"}})
			return err
		},
		func() (err error) {
			d.MayDevelop, err = mayDevelop(call, d.Instance.Relationships.Space.GUID())
			return err
		},
	)
	name := d.Instance.Name
	for _, b := range all {
		if b.Type == "key" {
			b.Command, b.Show = page.Command("cf", "delete-service-key", name, b.Name), page.Command("cf", "service-key",
				name, b.Name)
			d.Keys = append(d.Keys, b)
			continue
		}
		b.Command, b.Show = page.Command("cf", "unbind-service", b.App.Name, name), page.Command("cf", "env", b.App.Name)
		d.Bindings = append(d.Bindings, b)
	}
	d.Commands = serviceCommands{
		Service: page.Command("cf", "service", name), Parameters: page.Command("cf", "service", name, "--params"),
		Bind: page.Command("cf", "bind-service", "APP", name), CreateKey: page.Command("cf", "create-service-key",
			name, "KEY"),
		Update: page.Command("cf", "update-service", name, "-p", "PLAN"), Upgrade: page.Command("cf", "upgrade-service",
			name), Delete: page.Command("cf", "delete-service", name),
		Share:   page.Command("cf", "share-service", name, "-s", "SPACE", "-o", "ORG"),
		Unshare: page.Command("cf", "unshare-service", name, "-s", "SPACE", "-o", "ORG"),
	}
	if !d.Instance.managed() {
		d.Commands.Update = page.Command("cf", "update-user-provided-service", name, "-p", "CREDENTIALS.json")
	}
	return d, err
}

// loadServicePage loads all of the page of the service instance of the path.
func (c pages) loadServicePage(r *http.Request, s *page.Session) (*serviceData, error) {
	d, err := c.loadService(r, s, web.Param(r, "guid"))
	if err != nil {
		return nil, err
	}
	call := c.Platform(r, s)
	calls := []func() error{func() error { return d.loadShared(call) }}
	if d.Instance.managed() {
		calls = append(calls, func() error { return d.loadPlans(call) })
	}
	if d.MayDevelop {
		calls = append(calls, func() error { return d.loadApps(call) })
		if d.Instance.managed() && r.URL.Query().Get("parameters") != "" {
			calls = append(calls, func() error { return d.loadParameters(call) })
		}
	}
	if err := page.Together(calls...); err != nil {
		return nil, err
	}
	d.Bind, d.Update = &schemaForm{}, &schemaForm{Free: true}
	if d.Plan != nil {
		d.Bind, d.Update = newSchemaForm(d.Plan.Schemas.Binding.Create.Parameters),
			newSchemaForm(d.Plan.Schemas.Instance.Update.Parameters)
	}
	if d.Offering == nil || !d.Offering.Shareable || !d.MayDevelop {
		d.ShareTo = nil
	}
	return d, nil
}

func (d *serviceData) loadPlans(call *page.Caller) error {
	var plan servicePlan
	err := call.Get(&plan, "/v3/service_plans/"+url.PathEscape(d.Instance.Relationships.Plan.GUID()), nil)
	if page.Gone(err) {
		return nil // it is not offered any more
	}
	if err != nil {
		return err
	}
	var of offering
	if err := call.Get(&of, "/v3/service_offerings/"+url.PathEscape(plan.Relationships.Offering.GUID()), nil); err != nil {
		return err
	}
	d.Plan, d.Offering = &plan, &of
	if !d.MayDevelop || !plan.Catalog.Features.PlanUpdateable {
		return nil
	}
	d.Plans, err = page.All[servicePlan](call, "/v3/service_plans", url.Values{
		"service_offering_guids": {of.GUID}, "available": {"true"}, "space_guids": {d.Instance.Relationships.Space.GUID()},
	})
	return err
}

// loadApps loads the apps of the space that are not bound.
func (d *serviceData) loadApps(call *page.Caller) error {
	apps, err := page.All[cfapi.App](call, "/v3/apps", url.Values{"space_guids": {d.Instance.Relationships.Space.GUID()},
		"order_by": {"name"}})
	d.Apps = slices.DeleteFunc(apps, func(a cfapi.App) bool {
		return slices.ContainsFunc(d.Bindings, func(b binding) bool { return b.App.GUID == a.GUID })
	})
	return err
}

func (d *serviceData) loadShared(call *page.Caller) error {
	if !d.Instance.managed() {
		return nil
	}
	var answer struct {
		Included serviceNames `json:"included"`
	}
	err := call.Get(&answer, "/v3/service_instances/"+url.PathEscape(d.Instance.GUID)+"/relationships/shared_spaces",
		url.Values{
			"fields[space]": {"guid,name,relationships.organization"}, "fields[space.organization]": {"guid,name"},
		})
	if page.Gone(err) {
		return nil // it is shared with the user's space
	}
	if err != nil {
		return err
	}
	for _, in := range answer.Included.Spaces {
		d.Shared = append(d.Shared, apps.Developed{GUID: in.GUID, Name: in.Name,
			Org: byGUID(answer.Included.Orgs, in.Relationships.Organization.GUID()).Name})
	}
	var flag struct {
		Enabled bool `json:"enabled"`
	}
	if err := call.Get(&flag, "/v3/feature_flags/service_instance_sharing", nil); err != nil || !flag.Enabled ||
		!d.MayDevelop {
		return err
	}
	to, err := apps.DevelopedSpaces(call)
	d.ShareTo = slices.DeleteFunc(to, func(in apps.Developed) bool {
		return in.GUID == d.Instance.Relationships.Space.GUID() || slices.Contains(d.Shared, in)
	})
	return err
}

func (d *serviceData) loadParameters(call *page.Caller) error {
	var raw json.RawMessage
	err := call.Get(&raw, "/v3/service_instances/"+url.PathEscape(d.Instance.GUID)+"/parameters", nil)
	if _, text, ok := page.ProblemOf(err); ok {
		d.Parameters = text
		return nil
	}
	if page.Gone(err) {
		return nil
	}
	d.Parameters = page.Indented(raw)
	return err
}

// bindService is POST /console/services/GUID/bind, with the fields app, name and those of the
// parameters.
func (c pages) bindService(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.bind(w, r, s, "app", "bound")
}

// createKey is POST /console/services/GUID/keys/create.
func (c pages) createKey(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.bind(w, r, s, "key", "key")
}

func (c pages) bind(w http.ResponseWriter, r *http.Request, s *page.Session, kind, said string) error {
	guid := web.Param(r, "guid")
	data, err := c.loadServicePage(r, s)
	if err != nil {
		return err
	}
	relationships := map[string]any{"service_instance": cfapi.Relate(guid)}
	body := map[string]any{"type": kind, "relationships": relationships}
	if kind == "app" {
		relationships["app"] = cfapi.Relate(r.PostForm.Get("app"))
	}
	if name := strings.TrimSpace(r.PostForm.Get("name")); name != "" {
		body["name"] = name
	}
	parameters, ok := data.Bind.read(r.PostForm)
	if !ok {
		data.Typed = r.PostForm
		return c.showService(w, r, s, http.StatusUnprocessableEntity, "Some parameters are not valid. See the marked fields.",
			data)
	}
	if len(parameters) > 0 {
		body["parameters"] = parameters
	}
	if err := c.Platform(r, s).Do(http.MethodPost, "/v3/service_credential_bindings", body, nil); err != nil {
		return c.serviceFailed(w, r, s, err)
	}
	return page.GoTo(w, r, "/services/"+url.PathEscape(guid), said)
}

type credentialsData struct {
	Instance Row
	Name     string
	App      string // that they are bound to; empty for a key
	Text     string
	Values   []page.Variable
	Command  string
}

// showCredentials is POST /console/services/GUID/bindings/GUID/show. It is not a GET because the
// API records who has seen credentials, and so that they are not in the browser's history.
func (c pages) showCredentials(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, guid := c.Platform(r, s), web.Param(r, "guid")
	service, err := c.loadService(r, s, guid)
	if err != nil {
		return err
	}
	data := credentialsData{Instance: service.Instance}
	var answer struct {
		Credentials json.RawMessage `json:"credentials"`
	}
	// The guid of the instance in place of a binding stands for a user-provided instance.
	if id := web.Param(r, "binding"); id == guid {
		data.Name, data.Command = service.Instance.Name, page.Command("cf", "curl", "/v3/service_instances/"+guid+
			"/credentials")
		err = call.Get(&answer.Credentials, "/v3/service_instances/"+url.PathEscape(guid)+"/credentials", nil)
	} else {
		all := slices.Concat(service.Keys, service.Bindings)
		i := slices.IndexFunc(all, func(b binding) bool { return b.GUID == id })
		if i < 0 {
			return fault.New(fault.NotFound, "This key or binding does not exist.")
		}
		data.Name, data.Command = cmp.Or(all[i].Name, all[i].App.Name), all[i].Show
		data.App = all[i].App.Name
		err = call.Get(&answer, "/v3/service_credential_bindings/"+url.PathEscape(id)+"/details", nil)
	}
	if err != nil {
		return err
	}
	data.Text = page.Indented(answer.Credentials)
	if data.Values, err = page.InOrder(answer.Credentials); err != nil {
		return err
	}
	return c.Show(w, r, s, http.StatusOK, "credentials.html", page.Page{
		Title: "Credentials of " + data.Name, Section: "services", Data: data,
		Crumbs: []page.Crumb{{Name: "Services", Link: page.Path + "/services"},
			{Name: data.Instance.Name, Link: page.Path + "/services/" + url.PathEscape(guid)}},
	})
}

// updateService is POST /console/services/GUID/update: the fields plan, upgrade and those of the
// parameters; of a user-provided instance the credentials as JSON and the URLs.
func (c pages) updateService(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	data, err := c.loadServicePage(r, s)
	if err != nil {
		return err
	}
	parameters, ok := data.Update.read(r.PostForm)
	if !ok {
		data.Typed = r.PostForm
		return c.showService(w, r, s, http.StatusUnprocessableEntity, "Some parameters are not valid. See the marked fields.",
			data)
	}
	body, key := map[string]any{}, "parameters"
	if !data.Instance.managed() {
		key = "credentials"
		for _, name := range []string{"syslog_drain_url", "route_service_url"} {
			body[name] = strings.TrimSpace(r.PostForm.Get(name))
		}
	}
	if len(parameters) > 0 {
		body[key] = parameters
	}
	if plan := r.PostForm.Get("plan"); plan != "" && plan != data.Instance.Relationships.Plan.GUID() {
		body["relationships"] = map[string]any{"service_plan": cfapi.Relate(plan)}
	}
	if r.PostForm.Get("upgrade") != "" && data.Plan != nil {
		body["maintenance_info"] = map[string]string{"version": data.Plan.Maintenance.Version}
	}
	if err := c.Platform(r, s).Do(http.MethodPatch, "/v3/service_instances/"+url.PathEscape(guid), body, nil); err != nil {
		return c.serviceFailed(w, r, s, err)
	}
	return page.GoTo(w, r, "/services/"+url.PathEscape(guid), "updated")
}

// deleteService is POST /console/services/GUID/delete, with the name as confirm.
func (c pages) deleteService(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	data, err := c.loadService(r, s, guid)
	if err != nil {
		return err
	}
	err = page.Confirmed(r, data.Instance.Name)
	if err == nil {
		err = c.Platform(r, s).Do(http.MethodDelete, "/v3/service_instances/"+url.PathEscape(guid), nil, nil)
	}
	if err != nil {
		return c.serviceFailed(w, r, s, err)
	}
	return page.GoTo(w, r, "/services", "deleting")
}
