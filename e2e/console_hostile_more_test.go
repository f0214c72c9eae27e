package e2e

import (
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
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

// plantOthers sets the fields of the authorization server and the notification service.
func (p *planted) plantOthers(t *testing.T) {
	t.Helper()
	hostileUser := func(text string) object {
		body := userBody("x", "a-password")
		body["userName"] = text
		return body
	}
	if r := p.plant(t, "user", http.MethodPost, "/Users", hostileUser); r.Status == http.StatusCreated {
		p.hostile = r.object(t)["id"].(string)
		role := related("user", p.hostile)
		role["organization"] = related("x", p.org)["x"]
		p.call(t, http.MethodPost, "/v3/roles", p.token, object{"type": "organization_manager", "relationships": role})
	}
	p.plant(t, "group", http.MethodPost, "/Groups", func(text string) object {
		return object{"displayName": text, "description": payload("group description")}
	})
	p.plant(t, "client", http.MethodPost, "/oauth/clients", func(text string) object {
		return object{
			"client_id": text, "client_secret": "a long enough secret", "name": payload("client name"),
			"authorized_grant_types": []string{"client_credentials"}, "authorities": []string{"uaa.none"},
		}
	})
	p.plant(t, "redirect", http.MethodPost, "/oauth/clients", func(text string) object {
		return object{
			"client_id": "redirects", "client_secret": "a long enough secret",
			"authorized_grant_types": []string{"authorization_code"},
			"redirect_uri":           []string{"javascript:alert(1)"}, "scope": []string{"openid"}, "name": text,
		}
	})
	p.plant(t, "client name", http.MethodPost, "/oauth/clients", func(text string) object {
		return object{"client_id": "named", "client_secret": "a long enough secret",
			"authorized_grant_types": []string{"client_credentials"}, "authorities": []string{"uaa.none"}, "name": text}
	})
	m := &mailFixture{Server: p.Server}
	m.base, m.admin = p.Notifications, p.token
	m.newSender(t, "hostile-sender", sendingAuthorities...).want(t, http.StatusCreated)
	m.token = m.clientToken(t, "hostile-sender", "my-secret")
	m.ask(t, http.MethodPut, "/notifications", object{"source_name": payload("source"), "notifications": object{
		"news": object{"description": payload("kind")}, "tips": object{"description": payload("other kind")},
	}}).want(t, http.StatusNoContent)
	m.ask(t, http.MethodPut, "/kinds/tips/workflow", object{"steps": []object{{"channel": "email", "if": object{
		"data": "x", "equals": payload("workflow")}}}}).want(t, http.StatusOK)
	p.values["workflow"] = payload("workflow")
	p.values["source"], p.values["kind"], p.values["other kind"] = payload("source"), payload("kind"),
		payload("other kind")
	p.user = m.createUser(t, p.token, "ann", "ann-password")
	// a template may not have it
	without := func(field string) string { return strings.ReplaceAll(payload(field), "{{.}}", "") }
	p.values["partial text"] = without("partial text")
	boss := p.userTokens(t, "admin", p.secret(t, "admin-password")).Access
	p.call(t, http.MethodPut, p.Notifications+"/partials/footer?shared=true", boss,
		object{"text": without("partial text"), "html": without("partial html")}).want(t, http.StatusNoContent)
	p.values["topic"] = payload("topic")
	m.ask(t, http.MethodPut, "/topics/releases", object{"description": payload("topic")}).want(t, http.StatusCreated)
	p.call(t, http.MethodPut, p.Notifications+"/providers/gateway?shared=true", boss, object{"channel": "sms",
		"url": "https://192.0.2.1/", "json": object{"text": without("provider")}}).want(t, http.StatusOK)
	m.ask(t, http.MethodPost, "/templates", object{"name": payload("template"), "subject": "{{.Subject}}",
		"text": `{{template "footer" .}}`, "html": "<p>h</p>"}).want(t, http.StatusCreated)
	p.template = m.ask(t, http.MethodPost, "/templates", object{
		"name": payload("template"), "subject": without("template subject"), "html": without("template html"),
		"text": without("template text"),
	}).want(t, http.StatusCreated).object(t)["template-id"].(string)
	m.ask(t, http.MethodPut, "/templates/"+p.template, object{"name": payload("template"), "subject": "other",
		"html": without("template html"), "text": without("template text")}).want(t, http.StatusNoContent)
	m.ask(t, http.MethodPut, "/templates/"+p.template, object{"name": payload("template"),
		"subject": without("template subject"), "html": without("template html"), "text": without("template text")}).
		want(t, http.StatusNoContent)
	p.values["template"], p.values["template subject"] = payload("template"), without("template subject")
	m.ask(t, http.MethodPost, "/users/"+p.user, object{"kind_id": "news", "subject": payload("mail subject"),
		"text": payload("mail text"), "html": payload("mail html")}).want(t, http.StatusOK)
	p.values["mail subject"], p.values["mail text"] = payload("mail subject"), payload("mail text")
	var sends struct{ Sends []struct{ ID string } }
	m.ask(t, http.MethodGet, "/sends", nil).want(t, http.StatusOK).into(t, &sends)
	var messages struct{ Messages []struct{ ID string } }
	m.ask(t, http.MethodGet, "/messages", nil).want(t, http.StatusOK).into(t, &messages)
	p.send, p.message = sends.Sends[0].ID, messages.Messages[0].ID
	testkit.Eventually(t, "the mail is caught", func() bool {
		return strings.Contains(p.call(t, http.MethodGet, p.Admin+"/mailbox/messages?to=ann@example.org", "", nil).
			want(t, http.StatusOK).String(), "mail subject")
	})
	// Only a mail without HTML has the link to all preferences.
	m.ask(t, http.MethodPost, "/users/"+p.user, object{"kind_id": "news", "subject": "plain",
		"text": payload("mail text")}).want(t, http.StatusOK)
	testkit.Eventually(t, "the mail without HTML is caught", func() bool {
		var list struct {
			Messages []struct {
				Number  int64
				Subject string
			}
		}
		p.call(t, http.MethodGet, p.Admin+"/mailbox/messages?to=ann@example.org", "", nil).want(t, http.StatusOK).
			into(t, &list)
		for _, one := range list.Messages {
			if strings.HasSuffix(one.Subject, "plain") {
				p.plain = one.Number
			}
		}
		return p.plain != 0
	})
}
