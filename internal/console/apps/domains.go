package apps

import (
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// domain is a domain as the page of domains shows it.
type domain struct {
	cfapi.Thing
	Internal      bool     `json:"internal"`
	Protocols     []string `json:"supported_protocols"`
	Relationships struct {
		Organization cfapi.To `json:"organization"`
	} `json:"relationships"`
	Org     string `json:"-"` // its name; empty for a domain of all organizations
	Command string `json:"-"` // deletes it; empty if the user may not
}

type domainsData struct {
	Domains []domain
	Orgs    []cfapi.Thing // in which the user may create one
	Admin   bool          // and domains for all
	Name    string        // as typed
	Org     string
	Create  string
	Shared  string
	List    string
}

// domains is GET /console/domains.
func (c *pages) domains(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.showDomains(w, r, s, http.StatusOK, "")
}

func (c *pages) showDomains(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string) error {
	data, err := loadDomains(c.Platform(r, s))
	if err != nil {
		return err
	}
	data.Name, data.Org = r.PostForm.Get("name"), r.PostForm.Get("org")
	return c.Show(w, r, s, status, "domains.html", page.Page{Title: "Domains", Section: "apps", Data: data,
		Problem: problem, Crumbs: []page.Crumb{{Name: "Apps", Link: page.Path + "/apps"}}})
}

func loadDomains(call *page.Caller) (*domainsData, error) {
	data := &domainsData{Admin: call.Session.Admin(), List: page.Command("cf", "domains"),
		Create: page.Command("cf", "create-private-domain", "ORG", "DOMAIN"),
		Shared: page.Command("cf", "create-shared-domain", "DOMAIN")}
	var orgs []cfapi.Thing
	var roles []struct {
		Relationships struct {
			Organization cfapi.To `json:"organization"`
		} `json:"relationships"`
	}
	calls := []func() error{
		page.List(call, &data.Domains, "/v3/domains", url.Values{"order_by": {"name"}}),
		page.List(call, &orgs, "/v3/organizations", url.Values{"order_by": {"name"}}),
	}
	if !data.Admin {
		calls = append(calls, page.List(call, &roles, "/v3/roles", url.Values{"user_guids": {call.Session.UserID},
			"types": {"organization_manager"}}))
	}
	if err := page.Together(calls...); err != nil {
		return nil, err
	}
	manages, names := map[string]bool{}, map[string]string{}
	for _, one := range roles {
		manages[one.Relationships.Organization.GUID()] = true
	}
	for _, one := range orgs {
		names[one.GUID] = one.Name
		if data.Admin || manages[one.GUID] {
			data.Orgs = append(data.Orgs, one)
		}
	}
	for i := range data.Domains {
		one := &data.Domains[i]
		org := one.Relationships.Organization.GUID()
		one.Org = names[org]
		switch {
		case org != "" && (data.Admin || manages[org]):
			one.Command = page.Command("cf", "delete-private-domain", one.Name)
		case org == "" && data.Admin:
			one.Command = page.Command("cf", "delete-shared-domain", one.Name)
		}
	}
	return data, nil
}

// createDomain is POST /console/domains/create, with the fields name and org, a guid; without one the domain is for
// all organizations.
func (c *pages) createDomain(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	body := map[string]any{"name": strings.TrimSpace(r.PostForm.Get("name"))}
	if org := r.PostForm.Get("org"); org != "" {
		body["relationships"] = map[string]any{"organization": cfapi.Relate(org)}
	}
	if err := c.Platform(r, s).Do(http.MethodPost, "/v3/domains", body, nil); err != nil {
		return c.domainsFailed(w, r, s, err)
	}
	return page.GoTo(w, r, "/domains", "domain")
}

// deleteDomain is POST /console/domains/GUID/delete, with the name as confirm.
func (c *pages) deleteDomain(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	call, path := c.Platform(r, s), "/v3/domains/"+url.PathEscape(web.Param(r, "domain"))
	var found cfapi.Thing
	err := call.Get(&found, path, nil)
	if page.Gone(err) {
		return fault.New(fault.NotFound, "This domain does not exist, or you may not see it.")
	}
	if err == nil {
		err = page.Confirmed(r, found.Name)
	}
	if err == nil {
		err = call.Do(http.MethodDelete, path, nil, nil)
	}
	if err != nil {
		return c.domainsFailed(w, r, s, err)
	}
	return page.GoTo(w, r, "/domains", "domain-deleted")
}

func (c *pages) domainsFailed(w http.ResponseWriter, r *http.Request, s *page.Session, err error) error {
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	return c.showDomains(w, r, s, status, text)
}
