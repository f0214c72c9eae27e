package check

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/pattern"
)

// The sections of the specification.
const (
	secVersion   = "API Version Header"
	secOrigin    = "Originating Identity"
	secIdentity  = "Request Identity"
	secAuth      = "Platform to Service Broker Authentication"
	secContent   = "Content Type"
	secCatalog   = "Catalog Management"
	secProvision = "Provisioning"
	secPoll      = "Polling Last Operation for Service Instances"
	secFetch     = "Fetching a Service Instance"
	secUpdate    = "Updating a Service Instance"
	secBlock     = "Blocking Operations"
	secBind      = "Binding"
	secFetchBind = "Fetching a Service Binding"
	secUnbind    = "Unbinding"
	secDelete    = "Deprovisioning"
)

type service struct {
	ID                   string   `json:"id"`
	Name                 string   `json:"name"`
	Description          string   `json:"description"`
	Bindable             *bool    `json:"bindable"`
	Tags                 []string `json:"tags"`
	Requires             []string `json:"requires"`
	InstancesRetrievable bool     `json:"instances_retrievable"`
	BindingsRetrievable  bool     `json:"bindings_retrievable"`
	PlanUpdateable       bool     `json:"plan_updateable"`
	Plans                []plan   `json:"plans"`
}

type plan struct {
	ID              string          `json:"id"`
	Name            string          `json:"name"`
	Description     string          `json:"description"`
	Free            *bool           `json:"free"`
	Bindable        *bool           `json:"bindable"`
	PlanUpdateable  *bool           `json:"plan_updateable"`
	Metadata        map[string]any  `json:"metadata"`
	Schemas         *schemas        `json:"schemas"`
	MaxPolling      *int            `json:"maximum_polling_duration"`
	MaintenanceInfo json.RawMessage `json:"maintenance_info"`
}

type schemas struct {
	Instance struct {
		Create schema `json:"create"`
		Update schema `json:"update"`
	} `json:"service_instance"`
	Binding struct {
		Create schema `json:"create"`
	} `json:"service_binding"`
}

type schema struct {
	Parameters json.RawMessage `json:"parameters"`
}

// subject is the plan under test.
type subject struct {
	service service
	plan    plan
	other   *plan // of the same offering
}

func (s subject) query() url.Values {
	return url.Values{"service_id": {s.service.ID}, "plan_id": {s.plan.ID}}
}

func (s subject) bindable() bool {
	if s.plan.Bindable != nil {
		return *s.plan.Bindable
	}
	return s.service.Bindable != nil && *s.service.Bindable
}

func (s subject) updateable() bool {
	if s.plan.PlanUpdateable != nil {
		return *s.plan.PlanUpdateable
	}
	return s.service.PlanUpdateable
}

func (r *runner) all() {
	r.access()
	services := r.catalog()
	for _, s := range r.choose(services) {
		if r.ctx.Err() != nil {
			return
		}
		r.subject = s.service.Name + " " + s.plan.Name
		r.life(s)
	}
}

func catalogCall() call { return call{method: http.MethodGet, path: "/v2/catalog"} }

// access checks authentication and the API version.
func (r *runner) access() {
	none, wrong, old := "", "wrong-"+newID(), "1.0"
	if r.o.Username == "" && r.o.Password == "" {
		r.check(secAuth, "requests without credentials are rejected",
			func(p *probe) { p.skip("no credentials were given, so none are expected") })
	} else {
		unauthorized := func(what string, c call, user, password *string) {
			c.user, c.password = user, password
			r.check(secAuth, what, func(p *probe) {
				if a := p.do(c); a.status != http.StatusUnauthorized {
					p.fail("status %d, want 401 Unauthorized", a.status)
				}
			})
		}
		unauthorized("requests without credentials are rejected", catalogCall(), &none, &none)
		unauthorized("a wrong password is rejected", catalogCall(), nil, &wrong)
		unauthorized("a wrong password is rejected for changes", call{
			method: http.MethodDelete, path: "/v2/service_instances/" + newID(),
			query: url.Values{"service_id": {"x"}, "plan_id": {"x"}},
		}, nil, &wrong)
	}
	r.check(secVersion, "a version that is not 2.x is rejected", func(p *probe) {
		c := catalogCall()
		c.version = &old
		if a := p.do(c); a.status != http.StatusPreconditionFailed {
			p.warn("status %d, want 412 Precondition Failed", a.status)
		}
	})
	r.check(secVersion, "a request without the header is rejected", func(p *probe) {
		c := catalogCall()
		c.version = &none
		if a := p.do(c); a.status != http.StatusPreconditionFailed && a.status != http.StatusBadRequest {
			p.warn("status %d; the header is required", a.status)
		}
	})
	r.check(secIdentity, "the request's identity is in the response", func(p *probe) {
		c, id := catalogCall(), newID()
		c.header = http.Header{http.CanonicalHeaderKey(identityHeader): {id}}
		if a := p.do(c); a.header.Get(identityHeader) != id {
			p.warn("%s is %q, want %q", identityHeader, a.header.Get(identityHeader), id)
		}
	})
	r.check(secOrigin, "a malformed identity does not break the broker", func(p *probe) {
		c := catalogCall()
		c.header = http.Header{http.CanonicalHeaderKey(originHeader): {"nonsense"}}
		if a := p.do(c); a.status >= http.StatusInternalServerError {
			p.fail("status %d", a.status)
		}
	})
}

// catalog checks the catalog and returns it.
func (r *runner) catalog() []service {
	var list []service
	ok := r.check(secCatalog, "the catalog is a list of services", func(p *probe) {
		a := p.want(p.do(catalogCall()), http.StatusOK)
		raw, isList := a.object["services"].([]any)
		if !isList {
			p.fail("services is not a list")
		}
		var c struct{ Services []service }
		if err := json.Unmarshal(a.text, &c); err != nil {
			p.fail("a field has the wrong type: %v", err)
		}
		if list = c.Services; len(raw) == 0 {
			p.warn("the catalog is empty: there is nothing to test")
		}
	})
	r.check(secContent, "the catalog is sent as application/json", func(p *probe) {
		if t := p.do(catalogCall()).header.Get("Content-Type"); !strings.HasPrefix(t, "application/json") {
			p.warn("Content-Type is %q", t)
		}
	})
	if !ok || len(list) == 0 {
		return nil
	}
	r.check(secCatalog, "services have all required fields, and unique names and ids", func(p *probe) {
		p.do(catalogCall())
		checkServices(p, list)
	})
	r.check(secCatalog, "plans have all required fields, and unique names and ids", func(p *probe) {
		p.do(catalogCall())
		checkPlans(p, list)
	})
	r.check(secCatalog, "schemas are JSON schemas of at most 64 kB", func(p *probe) {
		p.do(catalogCall())
		checkSchemas(p, list)
	})
	r.check(secCatalog, "ids stay the same", func(p *probe) {
		a := p.want(p.do(catalogCall()), http.StatusOK)
		var c struct{ Services []service }
		if err := json.Unmarshal(a.text, &c); err != nil || !slices.Equal(allIDs(c.Services), allIDs(list)) {
			p.fail("a second request for the catalog returns other ids")
		}
	})
	return list
}

var friendly = pattern.OnUse(`^[A-Za-z0-9.-]+$`)

func checkServices(p *probe, list []service) {
	names, ids := map[string]bool{}, map[string]bool{}
	for _, s := range list {
		switch {
		case s.ID == "" || s.Name == "" || s.Description == "":
			p.fail("service %q: id, name and description must not be empty", s.Name)
		case s.Bindable == nil:
			p.fail("service %q: bindable is missing", s.Name)
		case names[s.Name]:
			p.fail("two services are called %q", s.Name)
		case ids[s.ID]:
			p.fail("two services have the id %q", s.ID)
		case len(s.Plans) == 0:
			p.fail("service %q has no plans", s.Name)
		case !friendly().MatchString(s.Name):
			p.warn("service %q: the name is hard to type", s.Name)
		}
		for _, permission := range s.Requires {
			if !slices.Contains([]string{"syslog_drain", "route_forwarding", "volume_mount"}, permission) {
				p.fail("service %q requires %q, which does not exist", s.Name, permission)
			}
		}
		names[s.Name], ids[s.ID] = true, true
	}
}

var semver = pattern.OnUse(`^\d+\.\d+\.\d+([-+].+)?$`)

func checkPlans(p *probe, list []service) {
	ids := map[string]bool{}
	for _, s := range list {
		names := map[string]bool{}
		for _, one := range s.Plans {
			switch {
			case one.ID == "" || one.Name == "" || one.Description == "":
				p.fail("plan %q of %q: id, name and description must not be empty", one.Name, s.Name)
			case names[one.Name]:
				p.fail("two plans of %q are called %q", s.Name, one.Name)
			case ids[one.ID]:
				p.fail("two plans have the id %q", one.ID)
			case !friendly().MatchString(one.Name):
				p.warn("plan %q of %q: the name is hard to type", one.Name, s.Name)
			case one.MaxPolling != nil && *one.MaxPolling <= 0:
				p.fail("plan %q of %q: maximum_polling_duration must be positive", one.Name, s.Name)
			}
			if len(one.MaintenanceInfo) > 0 && string(one.MaintenanceInfo) != "null" {
				var info struct{ Version string }
				if json.Unmarshal(one.MaintenanceInfo, &info) != nil || !semver().MatchString(info.Version) {
					p.fail("plan %q of %q: maintenance_info.version is not a semantic version", one.Name, s.Name)
				}
			}
			names[one.Name], ids[one.ID] = true, true
		}
	}
}

func checkSchemas(p *probe, list []service) {
	found := false
	for _, s := range list {
		for _, one := range s.Plans {
			if one.Schemas == nil {
				continue
			}
			for _, raw := range []json.RawMessage{one.Schemas.Instance.Create.Parameters, one.Schemas.Instance.Update.Parameters,
				one.Schemas.Binding.Create.Parameters} {
				if len(raw) == 0 {
					continue
				}
				found = true
				var fields map[string]any
				if len(raw) > 64<<10 || json.Unmarshal(raw, &fields) != nil {
					p.fail("plan %q of %q: a schema is not an object, or is over 64 kB", one.Name, s.Name)
				}
				if word, _ := fields["$schema"].(string); word == "" {
					p.fail("plan %q of %q: a schema has no $schema", one.Name, s.Name)
				}
			}
		}
	}
	if !found {
		p.skip("the catalog has no schemas")
	}
}

func allIDs(list []service) []string {
	var ids []string
	for _, s := range list {
		ids = append(ids, s.ID)
		for _, one := range s.Plans {
			ids = append(ids, one.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// choose returns the plans to test.
func (r *runner) choose(list []service) []subject {
	var chosen []subject
	for _, s := range list {
		if len(s.Plans) == 0 || r.o.Service != "" && s.Name != r.o.Service {
			continue
		}
		at := slices.IndexFunc(s.Plans, func(one plan) bool { return one.Free == nil || *one.Free })
		if r.o.Plan != "" {
			at = slices.IndexFunc(s.Plans, func(one plan) bool { return one.Name == r.o.Plan })
			if at < 0 {
				continue
			}
		}
		at = max(at, 0)
		sub := subject{service: s, plan: s.Plans[at]}
		if len(s.Plans) > 1 {
			sub.other = &s.Plans[(at+1)%len(s.Plans)]
		}
		chosen = append(chosen, sub)
	}
	if len(chosen) == 0 {
		r.check(secCatalog, "the service and plan exist", func(p *probe) {
			if r.o.Service == "" && r.o.Plan == "" {
				p.skip("the catalog is not valid")
			}
			p.fail("no service %q with a plan %q is offered", r.o.Service, r.o.Plan)
		})
	}
	return chosen
}
