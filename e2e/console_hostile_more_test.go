package e2e

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/services/brokertest"
)

// plantBroker registers a broker with payloads in its catalog, and returns a plan of it.
func (p *planted) plantBroker(t *testing.T) (plan string) {
	t.Helper()
	broker := brokertest.New(t, &brokertest.Broker{Change: func(catalog map[string]any) {
		offering := catalog["services"].([]any)[0].(map[string]any)
		offering["description"], offering["tags"] = payload("offering"), []string{payload("offering tag")}
		offering["metadata"] = object{
			"displayName": payload("offering title"), "longDescription": payload("offering text"),
			"documentationUrl": "javascript:alert(1)", "imageUrl": "javascript:alert(1)",
		}
		schema := object{"type": "object",
			"properties": object{"size": object{"type": "string", "title": payload("schema title"),
				"description": payload("schema help"), "enum": []string{payload("schema value")}}}}
		for _, one := range offering["plans"].([]any) {
			plan := one.(map[string]any)
			plan["description"], plan["metadata"] = payload("plan"), object{"bullets": []string{payload("bullet")}}
			plan["schemas"] = object{"service_instance": object{"create": object{"parameters": schema}}}
		}
	}})
	for _, field := range []string{"offering", "offering tag", "offering title", "offering text", "plan", "bullet",
		"schema title", "schema help", "schema value"} {
		p.values[field] = payload(field)
	}
	p.plant(t, "broker", http.MethodPost, "/v3/service_brokers", func(text string) object {
		return object{"name": text, "url": broker.URL, "authentication": object{
			"type": "basic", "credentials": object{"username": brokertest.Username, "password": brokertest.Password},
		}}
	})
	testkit.Eventually(t, "the catalog is there", func() bool {
		found := p.list(t, p.token, "/v3/service_plans?names="+brokertest.Async)
		if len(found) > 0 {
			plan = found[0]["guid"].(string)
		}
		return plan != ""
	})
	p.call(t, http.MethodPatch, "/v3/service_plans/"+plan+"/visibility", p.token, object{"type": "public"}).
		want(t, http.StatusOK)
	return plan
}

// plantCampaigns creates a sender and a campaign type of the console's, with its forms.
func (p *planted) plantCampaigns(t *testing.T, browser *http.Client) {
	t.Helper()
	at := p.API + "/console/notifications/campaigns"
	var page string
	read := func(r *http.Response, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if page = string(b); err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("the campaigns answer %s (%v)\n%s", r.Status, err, page)
		}
	}
	fixed := url.Values{}
	submit := func(to string, fields map[string]string) {
		t.Helper()
		form := maps.Clone(fixed)
		form.Set("csrf", hiddenFields(page).Get("csrf"))
		for name, field := range fields {
			p.values[field] = payload(field)
			form.Set(name, payload(field))
		}
		read(browser.PostForm(to, form))
	}
	read(browser.Get(at))
	submit(at+"/senders", map[string]string{"name": "campaign sender"})
	types := regexp.MustCompile(`/console/notifications/campaigns/senders/[^/"]+/types`).FindString(page)
	if types == "" {
		t.Fatalf("the campaigns have no sender\n%s", page)
	}
	submit(p.API+types, map[string]string{"name": "campaign type", "description": "campaign text"})
	fixed.Set("for", "campaigns")
	fixed.Set("text", "{{.Text}}")
	submit(p.API+"/console/notifications/templates/save", map[string]string{"name": "campaign template"})
}
