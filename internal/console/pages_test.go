package console

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestPages renders pages with data as their handlers have it.
func TestPages(t *testing.T) {
	t.Parallel()
	now := time.Now()
	instance := serviceRow{serviceInstance: serviceInstance{GUID: "g", Name: "<db>", Type: "managed", Last: &operation{Type: "create", State: "in progress"}, CreatedAt: now}, Plan: "small", Offering: "postgres"}
	key := binding{GUID: "k", Name: "laptop", Type: "key", Last: &operation{Type: "create", State: "succeeded"}}
	pages := pager{Page: 2, Pages: 3, Total: 101, Noun: "things", at: Path + "/x", query: map[string][]string{"q": {"a b"}}}
	for _, test := range []struct {
		name string
		data any
		want []string
	}{
		{"servicelist.html", &servicesData{Rows: []serviceRow{instance}, Pager: pages}, []string{"&lt;db&gt;", "create in progress", "<progress", "/console/x?page=1&amp;q=a&#43;b", "Page 2 of 3"}},
		{
			"service.html", &serviceData{
				Instance: instance, Keys: []binding{key}, MayDevelop: true, Plan: &servicePlan{}, Update: &schemaForm{Free: true}, Bind: &schemaForm{}, Shared: []developed{{"s", "second", "demo"}},
				ShareTo: []developed{{"t", "third", "demo"}}, Plans: []servicePlan{{GUID: "p", Name: "large"}},
			},
			[]string{"Show credentials", "/unshare", "demo / third", "large (paid)", `name="confirm"`},
		},
		{"service.html", &serviceData{Instance: instance, Keys: []binding{key}}, []string{"laptop"}},
		{"marketplace.html", &marketplaceData{Offerings: []offering{{Name: "redis", Documentation: "javascript:alert(1)", Plans: []servicePlan{{Name: "small", Free: true}}}}, MayDevelop: true}, []string{"redis", "free", "#ZgotmplZ"}},
		{"audit.html", &auditData{Events: []fullEvent{{CreatedAt: now, Type: "audit.app.create", Target: party{GUID: "g", Type: "app", Name: "shop"}, Data: []byte(`{"a":"<b>"}`)}}, Pager: pages}, []string{"/console/apps/g", "{\n  &#34;a&#34;: &#34;&lt;b&gt;&#34;\n}"}},
		{"clients.html", clientsData{Clients: []oauthClient{{ID: "a b", Scopes: []string{"1", "2", "3", "4", "5"}}, {ID: "cf"}}, Pager: pages, MayWrite: true}, []string{"/console/clients/a%20b", "system"}},
		{"users.html", usersData{Users: []authUser{{ID: "u", UserName: "ann", LastLogin: 1}}, Pager: pages, MayWrite: true}, []string{"ann", "inactive", "1970-01-01"}},
	} {
		b, err := embedded.render(test.name, page{Title: "T", User: "ann", Data: test.data})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s lacks %s:\n%s", test.name, want, b)
			}
		}
	}
	without, err := embedded.render("service.html", page{Data: &serviceData{Instance: instance, Keys: []binding{key}}})
	if err != nil || strings.Contains(string(without), `method="post"`) {
		t.Errorf("one who is not a developer sees forms (%v):\n%s", err, without)
	}
}

// TestMembersOfInstances: an instance with sidecars has a table of its members, one without
// has none.
func TestMembersOfInstances(t *testing.T) {
	t.Parallel()
	helper := instanceMember{Name: "<helper>", State: "RUNNING", CPU: 0.015, Memory: 4 << 20, MemoryQuota: 32 << 20, Restarts: 2}
	if err := json.Unmarshal([]byte(`{"status":137,"reason":"out of memory","time":"2026-01-02T03:04:05Z"}`), &helper.LastExit); err != nil {
		t.Fatal(err)
	}
	web := instanceMember{Name: "web", State: "RUNNING"}
	for _, test := range []struct {
		members   []instanceMember
		want, not []string
	}{
		{[]instanceMember{web}, nil, []string{"<table"}},
		{[]instanceMember{web, helper}, []string{"&lt;helper&gt;", "1.5%", "of 32", "<td>2</td>", "out of memory (status 137)", "2026-01-02"}, []string{"<helper>"}},
	} {
		var b strings.Builder
		if err := embedded.t.ExecuteTemplate(&b, "instance-members", test.members); err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%d members: no %s in %s", len(test.members), want, b.String())
			}
		}
		for _, not := range test.not {
			if strings.Contains(b.String(), not) {
				t.Errorf("%d members: %s in %s", len(test.members), not, b.String())
			}
		}
	}
}
