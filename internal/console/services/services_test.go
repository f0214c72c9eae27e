package services

import (
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/apps"
	"ingot/internal/console/page"
	"ingot/internal/console/pagetest"
)

// core renders the templates of services.
var core = sync.OnceValue(func() *page.Console { return page.New(page.Options{}, page.Load(Files), nil) })

// TestPages renders pages with data as their handlers have it.
func TestPages(t *testing.T) {
	t.Parallel()
	now := time.Now()
	instance := Row{ServiceInstance: cfapi.ServiceInstance{
		Thing: cfapi.Thing{GUID: "g", Name: "<db>", CreatedAt: now}, Type: "managed",
		Last: &cfapi.Operation{Type: "create", State: "in progress"}}, Plan: "small", Offering: "postgres"}
	key := binding{Binding: cfapi.Binding{Thing: cfapi.Thing{GUID: "k", Name: "laptop"}, Type: "key",
		Last: &cfapi.Operation{Type: "create", State: "succeeded"}}}
	pagetest.Pages(t, core(), []pagetest.Page{
		{Template: "servicelist.html", Data: &servicesData{Rows: []Row{instance}, Pager: pagetest.Pager()},
			Want: []string{"&lt;db&gt;", "create in progress", "<progress", "/console/x?page=1&amp;q=a&#43;b", "Page 2 of 3"}},
		{
			Template: "service.html", Data: &serviceData{
				Instance: instance, Keys: []binding{key}, MayDevelop: true, Plan: &servicePlan{}, Update: &schemaForm{Free: true},
				Bind: &schemaForm{}, Shared: []apps.Developed{{GUID: "s", Name: "second", Org: "demo"}},
				ShareTo: []apps.Developed{{GUID: "t", Name: "third", Org: "demo"}},
				Plans:   []servicePlan{{Plan: cfapi.Plan{Thing: cfapi.Thing{GUID: "p", Name: "large"}}}},
			},
			Want: []string{"Show credentials", "/unshare", "demo / third", "large (paid)", `name="confirm"`},
		},
		{Template: "service.html", Data: &serviceData{Instance: instance, Keys: []binding{key}}, Want: []string{"laptop"}},
		{Template: "marketplace.html",
			Data: &marketplaceData{Offerings: []offering{{Documentation: "javascript:alert(1)",
				Offering: cfapi.Offering{Thing: cfapi.Thing{Name: "redis"}},
				Plans:    []servicePlan{{Plan: cfapi.Plan{Thing: cfapi.Thing{Name: "small"}, Free: true}}}}}, MayDevelop: true},
			Want: []string{"redis", "free",
				"#ZgotmplZ"}},
	})
	without, err := core().Render("service.html", page.Page{Data: &serviceData{Instance: instance, Keys: []binding{key}}})
	if err != nil || strings.Contains(string(without), `method="post"`) {
		t.Errorf("one who is not a developer sees forms (%v):\n%s", err, without)
	}
}
