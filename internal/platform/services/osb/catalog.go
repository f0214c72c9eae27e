package osb

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Catalog is the catalog of a broker.
type Catalog struct {
	Services []*Service `json:"services"`
}

// Service is an offering.
type Service struct {
	ID                   string         `json:"id"`
	Name                 string         `json:"name"`
	Description          string         `json:"description"`
	Bindable             bool           `json:"bindable"`
	Tags                 []string       `json:"tags"`
	Requires             []string       `json:"requires"`
	Metadata             map[string]any `json:"metadata"`
	PlanUpdateable       bool           `json:"plan_updateable"`
	InstancesRetrievable bool           `json:"instances_retrievable"`
	BindingsRetrievable  bool           `json:"bindings_retrievable"`
	AllowContextUpdates  bool           `json:"allow_context_updates"`
	Plans                []*Plan        `json:"plans"`
	// DashboardClient is the OAuth client with which its dashboard logs users in.
	DashboardClient *DashboardClient `json:"dashboard_client"`
}

// DashboardClient is an OAuth client that a broker requires.
type DashboardClient struct {
	ID          string `json:"id"`
	Secret      string `json:"secret"`
	RedirectURI string `json:"redirect_uri"`
}

// Plan is a plan of an offering.
type Plan struct {
	ID                     string           `json:"id"`
	Name                   string           `json:"name"`
	Description            string           `json:"description"`
	Free                   *bool            `json:"free"`
	Bindable               *bool            `json:"bindable"`
	PlanUpdateable         *bool            `json:"plan_updateable"`
	BindingRotatable       bool             `json:"binding_rotatable"`
	Metadata               map[string]any   `json:"metadata"`
	Schemas                map[string]any   `json:"schemas"`
	MaximumPollingDuration int              `json:"maximum_polling_duration"`
	MaintenanceInfo        *MaintenanceInfo `json:"maintenance_info"`
}

// Catalog fetches and validates the catalog of a broker.
func (c *Client) Catalog(ctx context.Context, b Broker) (*Catalog, error) {
	r, err := c.do(ctx, b, call{method: http.MethodGet, path: "catalog", limit: maxCatalog})
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, r.failure(b)
	}
	var out Catalog
	if err := decode(r.body, &out); err != nil {
		return nil, r.garbage(b, err)
	}
	if problems := out.problems(); len(problems) > 0 {
		return nil, &Error{Outcome: Refused, Title: "ServiceBrokerCatalogInvalid", Status: r.status,
			Message: "Service broker catalog is invalid: \n" + strings.Join(problems, "\n")}
	}
	return &out, nil
}

// problems returns the errors in a catalog, with the messages of Cloud Foundry.
func (c *Catalog) problems() []string {
	var out []string
	add := func(format string, args ...any) {
		if len(out) < 20 { // a broken catalog has many
			out = append(out, clean(fmt.Sprintf(format, args...)))
		}
	}
	if len(c.Services) == 0 {
		add("Service broker must provide at least one service")
	}
	ids, names, clients := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, s := range c.Services {
		if s == nil {
			add("Service must be an object")
			continue
		}
		if s.ID == "" {
			add("Service '%s': Service id must be a string and must not be empty", s.Name)
		}
		if s.Name == "" {
			add("Service id '%s': Service name must be a string and must not be empty", s.ID)
		}
		if s.Description == "" {
			add("Service '%s': Service description is required", s.Name)
		}
		if ids[s.ID] {
			add("Service ids must be unique: '%s'", s.ID)
		}
		if names[s.Name] {
			add("Service names must be unique within a broker: '%s'", s.Name)
		}
		ids[s.ID], names[s.Name] = true, true
		s.problems(add)
		if d := s.DashboardClient; d != nil {
			if clients[d.ID] {
				add("Service '%s': Service dashboard client id must be unique: '%s'", s.Name, d.ID)
			}
			clients[d.ID] = true
		}
	}
	return out
}

func (s *Service) problems(add func(string, ...any)) {
	if d := s.DashboardClient; d != nil {
		for name, value := range map[string]string{"id": d.ID, "secret": d.Secret, "redirect_uri": d.RedirectURI} {
			if value == "" {
				add("Service '%s': Service dashboard client %s must be a string and must not be empty", s.Name, name)
			}
		}
		if u, err := url.Parse(d.RedirectURI); d.RedirectURI != "" && (err != nil || u.Host == "" || u.Scheme != "http" &&
			u.Scheme != "https") {
			add("Service '%s': Service dashboard client redirect_uri must be an http or https URL", s.Name)
		}
	}
	if len(s.Plans) == 0 {
		add("Service '%s': At least one plan is required", s.Name)
	}
	ids, names := map[string]bool{}, map[string]bool{}
	for _, p := range s.Plans {
		if p == nil {
			add("Service '%s': Plan must be an object", s.Name)
			continue
		}
		if p.ID == "" || p.Name == "" || p.Description == "" {
			add("Service '%s': Plan '%s' must have an id, a name and a description", s.Name, p.Name)
		}
		if ids[p.ID] {
			add("Service '%s': Plan ids must be unique: '%s'", s.Name, p.ID)
		}
		if names[p.Name] {
			add("Service '%s': Plan names must be unique within a service: '%s'", s.Name, p.Name)
		}
		if p.MaximumPollingDuration < 0 {
			add("Service '%s': Plan '%s': maximum_polling_duration must not be negative", s.Name, p.Name)
		}
		ids[p.ID], names[p.Name] = true, true
	}
}
