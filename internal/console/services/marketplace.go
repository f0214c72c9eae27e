package services

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/apps"
	"ingot/internal/console/page"
)

type offering struct {
	cfapi.Offering
	Documentation string `json:"documentation_url"`
	Shareable     bool   `json:"shareable"`
	Catalog       struct {
		Metadata catalogMetadata `json:"metadata"`
	} `json:"broker_catalog"`
	Plans   []servicePlan `json:"-"`
	Command string        `json:"-"`
}

// Title is the name for people.
func (o offering) Title() string {
	if name := o.Catalog.Metadata.text("displayName"); name != "" {
		return name
	}
	return o.Name
}

// About is the long description.
func (o offering) About() string { return o.Catalog.Metadata.text("longDescription") }

// catalogMetadata is what brokers say about themselves, in any form.
type catalogMetadata map[string]json.RawMessage

func (m catalogMetadata) text(key string) string {
	var s string
	_ = json.Unmarshal(m[key], &s) // anything else is no text
	return s
}

type servicePlan struct {
	cfapi.Plan
	Costs []struct {
		Amount   json.Number `json:"amount"`
		Currency string      `json:"currency"`
		Unit     string      `json:"unit"`
	} `json:"costs"`
	Catalog struct {
		Metadata catalogMetadata `json:"metadata"`
		Features struct {
			Bindable       bool `json:"bindable"`
			PlanUpdateable bool `json:"plan_updateable"`
		} `json:"features"`
	} `json:"broker_catalog"`
	Schemas struct {
		Instance struct {
			Create planSchema `json:"create"`
			Update planSchema `json:"update"`
		} `json:"service_instance"`
		Binding struct {
			Create planSchema `json:"create"`
		} `json:"service_binding"`
	} `json:"schemas"`
}

type planSchema struct {
	Parameters json.RawMessage `json:"parameters"`
}

// bullets are the features that a broker lists.
func (p servicePlan) bullets() []string {
	var list []string
	_ = json.Unmarshal(p.Catalog.Metadata["bullets"], &list) // anything else is no list
	return list[:min(len(list), 10)]
}

type marketplaceData struct {
	Offerings  []offering
	Query      string
	Space      string // to create the instance in
	MayDevelop bool
	Command    string
}

// marketplace is GET /console/services/marketplace: ?q= part of a name, description or tag.
func (c pages) marketplace(r *http.Request, s *page.Session) (any, error) {
	call, q := c.Platform(r, s), r.URL.Query()
	data := &marketplaceData{Query: strings.TrimSpace(q.Get("q")), Space: q.Get("space"),
		Command: page.Command("cf", "marketplace")}
	var plans []servicePlan
	var spaces []apps.Developed
	err := page.Together(
		page.List(call, &data.Offerings, "/v3/service_offerings", url.Values{"available": {"true"}, "order_by": {"name"}}),
		page.List(call, &plans, "/v3/service_plans", url.Values{"available": {"true"}}),
		func() (err error) { spaces, err = apps.DevelopedSpaces(call); return err },
	)
	if err != nil {
		return nil, err
	}
	data.MayDevelop = len(spaces) > 0
	data.Offerings = slices.DeleteFunc(data.Offerings, func(o offering) bool {
		return !slices.ContainsFunc(append([]string{o.Name, o.Title(), o.Description}, o.Tags...),
			func(text string) bool { return page.Matches(text, data.Query) })
	})
	for i := range data.Offerings {
		o := &data.Offerings[i]
		o.Command = page.Command("cf", "create-service", o.Name, "PLAN", "NAME")
		for _, p := range plans {
			if p.Relationships.Offering.GUID() == o.GUID {
				o.Plans = append(o.Plans, p)
			}
		}
	}
	return data, nil
}

type newServiceData struct {
	Provided  bool // user-provided
	Plan      servicePlan
	Offering  offering
	Spaces    []apps.Developed
	Space     string
	Name      string
	Tags      string
	Form      *schemaForm
	Values    map[string]string // of the fields of user-provided instances
	Problem   string
	Command   string
	Forbidden bool // no space to create it in
}

// newService is GET /console/services/new: ?plan= guid or type=user-provided, ?space= guid.
func (c pages) newService(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	q := r.URL.Query()
	if q.Get("plan") == "" && q.Get("type") == "" {
		return page.GoTo(w, r, "/services/marketplace", "")
	}
	data, err := c.loadNewService(c.Platform(r, s), q)
	if err != nil {
		return err
	}
	return c.showNewService(w, r, s, http.StatusOK, data)
}

func (c pages) showNewService(w http.ResponseWriter, r *http.Request, s *page.Session, status int,
	data *newServiceData) error {
	title := "Create a user-provided service"
	if !data.Provided {
		title = "Create " + data.Offering.Title()
	}
	return c.Show(w, r, s, status, "newservice.html", page.Page{
		Title: title, Section: "services", Data: data, Problem: data.Problem,
		Crumbs: []page.Crumb{{Name: "Services", Link: page.Path + "/services"},
			{Name: "Marketplace", Link: page.Path + "/services/marketplace"}},
	})
}

func (c pages) loadNewService(call *page.Caller, q url.Values) (*newServiceData, error) {
	data := &newServiceData{Provided: q.Get("plan") == "", Space: q.Get("space"), Values: map[string]string{}}
	var err error
	if data.Spaces, err = apps.DevelopedSpaces(call); err != nil {
		return nil, err
	}
	data.Forbidden = len(data.Spaces) == 0
	if data.Provided {
		data.Command = page.Command("cf", "create-user-provided-service", "NAME", "-p", `{"url":"https://api.example.com"}`)
		return data, nil
	}
	if err := call.Get(&data.Plan, "/v3/service_plans/"+url.PathEscape(q.Get("plan")), nil); err != nil {
		return nil, err
	}
	if err := call.Get(&data.Offering, "/v3/service_offerings/"+url.PathEscape(data.Plan.Relationships.Offering.GUID()),
		nil); err != nil {
		return nil, err
	}
	data.Form = newSchemaForm(data.Plan.Schemas.Instance.Create.Parameters)
	words := []string{"cf", "create-service", data.Offering.Name, data.Plan.Name, "NAME"}
	if !data.Form.Empty() {
		words = append(words, "-c", "PARAMETERS.json")
	}
	data.Command = page.Command(words...)
	return data, nil
}

// createService is POST /console/services/new, with the fields plan, space, name, tags and those
// of the parameters; without a plan it is user-provided.
func (c pages) createService(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, form := c.Platform(r, s), r.PostForm
	data, err := c.loadNewService(call, url.Values{"plan": {form.Get("plan")}, "space": {form.Get("space")}})
	if err != nil {
		return err
	}
	data.Name, data.Tags = strings.TrimSpace(form.Get("name")), form.Get("tags")
	body := map[string]any{"type": "managed", "name": data.Name}
	relationships := map[string]any{"space": cfapi.Relate(data.Space)}
	body["relationships"] = relationships
	if tags := page.Words(data.Tags); len(tags) > 0 {
		body["tags"] = tags
	}
	var ok bool
	if data.Provided {
		body["type"] = "user-provided"
		ok = data.provide(form, body)
	} else {
		var parameters map[string]any
		relationships["service_plan"] = cfapi.Relate(data.Plan.GUID)
		if parameters, ok = data.Form.read(form); len(parameters) > 0 {
			body["parameters"] = parameters
		}
	}
	if !ok {
		data.Problem = "Some parameters are not valid. See the marked fields."
		return c.showNewService(w, r, s, http.StatusUnprocessableEntity, data)
	}
	if err := call.Do(http.MethodPost, "/v3/service_instances", body, nil); err != nil {
		status, text, shown := page.ProblemOf(err)
		if !shown {
			return err
		}
		data.Problem = text
		return c.showNewService(w, r, s, status, data)
	}
	// The response of a managed one is a job.
	made, err := page.All[cfapi.ServiceInstance](call, "/v3/service_instances", url.Values{"names": {listValue(data.Name)},
		"space_guids": {data.Space}})
	if err != nil || len(made) == 0 {
		return page.GoTo(w, r, "/services", "service")
	}
	return page.GoTo(w, r, "/services/"+url.PathEscape(made[0].GUID), "service")
}

// provide sets the members of a user-provided instance.
func (d *newServiceData) provide(form url.Values, body map[string]any) bool {
	d.Form = &schemaForm{Free: true}
	credentials, ok := d.Form.read(form)
	if len(credentials) > 0 {
		body["credentials"] = credentials
	}
	for _, name := range []string{"syslog_drain_url", "route_service_url"} {
		if d.Values[name] = strings.TrimSpace(form.Get(name)); d.Values[name] != "" {
			body[name] = d.Values[name]
		}
	}
	return ok
}

// listValue escapes a value of a list in a query: a comma separates values.
func listValue(text string) string {
	return strings.NewReplacer("%", "%25", ",", "%2C").Replace(text)
}
