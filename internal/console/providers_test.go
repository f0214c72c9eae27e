package console

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"ingot/internal/console/pagetest"
)

func newProviders() *service {
	return &service{answers: map[string]string{
		"GET /providers": `{"providers":[
			{"name":"off","channel":"sms","url":"https://off.example.com","weight":9,"disabled":true},
			{"name":"reserve","channel":"sms","url":"https://reserve.example.com","weight":0},
			{"name":"half","channel":"sms","url":"https://a.example.com","weight":1,"secrets":["token"],
				"health":{"state":"closed"}},
			{"name":"more","channel":"sms","url":"https://b.example.com/` + hostileJSON + `","weight":3,
				"health":{"state":"open","failures":5,"reason":"503 ` + hostileJSON + `","until":"2026-11-19T12:00:00Z"}},
			{"name":"apple","channel":"push","service":"apns","url":"https://apns.example.com","weight":1},
			{"name":"google","channel":"push","service":"fcm","url":"https://fcm.example.com","weight":2},
			{"name":"relay","channel":"push","service":"fcm","url":"https://relay.example.com","weight":8},
			{"name":"common","channel":"sms","shared":true}]}`,
		"GET /providers/half": `{"name":"half","channel":"sms","shared":false,"url":"https://a.example.com","weight":1,
			"json":{"z":"<b>","a":12345678901234567890},"secrets":["token","account"],"health":{"state":"closed"},
			"created_at":"2026-11-19T12:00:00Z","updated_at":"2026-11-19T12:00:00Z"}`,
		"PUT /providers/half":              "",
		"PUT /providers/fresh?shared=true": "",
		"DELETE /providers/half":           "",
		"GET /providers/half?shared=true":  `{"name":"half","shared":true}`,
		"GET /providers/fresh2":            `{"name":"fresh2"}`,
	}}
}

// TestProviders lists providers in the order in which messages go to them, and declares, changes and deletes them.
func TestProviders(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	api := newProviders()
	api.serve(w, "notifications.write", "notifications.admin")
	const at = "/notifications/providers"
	status, text := w.Get(Path + at)
	has(t, "the list", status, http.StatusOK, text, "first for 75 %", "first for 25 %", "reserve, after the others",
		"switched off", "open</span>", "5 failed in a row", "503 &#34;&gt;", "<code>token</code>",
		"Managed by administrators", "text messages and push", "first for 100 %", "first for 80 %", "first for 20 %",
		"devices of fcm", "devices of apns")
	var order []string
	for _, m := range regexp.MustCompile(`/providers/(\w+)"`).FindAllStringSubmatch(text, -1) {
		order = append(order, m[1])
	}
	if got := strings.Join(order, " "); got != "more half reserve off apple relay google" {
		t.Errorf("the order is %s", got)
	}
	status, text = w.Get(Path + at + "/half")
	has(t, "a provider", status, http.StatusOK, text, "&#34;a&#34;: 12345678901234567890", "&lt;b&gt;", "Value of token",
		"Value of account", "Another secret", `value="1"`, "--set half", "--delete half")
	if strings.Contains(text, "created_at") || strings.Contains(text, "&#34;weight") {
		t.Error("the definition has what belongs to the service, or has a field of its own")
	}

	const definition = "{\"url\": \"https://a.example.com\",\r\n " +
		"\"json\": {\"z\": 1, \"a\": \"{{secret \\\"token\\\"}}\"}}"
	form := func(more url.Values) url.Values {
		all := url.Values{"definition": {definition}, "weight": {"5"}, "secret_name": {"token", "account", ""},
			"secret_value": {" very-secret ", "", ""}}
		for name, values := range more {
			all[name] = values
		}
		return all
	}
	status, _, to := submit(t, w, at+"/half/save", form(url.Values{"disabled": {"1"}}))
	if status != http.StatusSeeOther || to != Path+at+"/half?said=provider" || !api.was(`PUT /providers/half {"channel":"sms",`+
		`"disabled":true,"json":{"z":1,"a":"{{secret \"token\"}}"},"secrets":{"token":"very-secret"},`+
		`"url":"https://a.example.com","weight":5}`) {
		t.Errorf("saving: %d %s, asked %q", status, to, api.asked)
	}
	status, _, to = submit(t, w, at+"/save", form(url.Values{"name": {"fresh"}, "shared": {"1"}}))
	if status != http.StatusSeeOther || to != Path+at+"/fresh?shared=true&said=provider" {
		t.Errorf("declaring: %d %s, asked %q", status, to, api.asked)
	}
	api.answers["PUT /providers/half"] = `422: the secret "key" is used, but has no value: <b>`
	for what, test := range map[string]struct {
		path   string
		form   url.Values
		status int
		want   string
	}{
		"refused by the service": {"/half/save", nil, http.StatusUnprocessableEntity, "is used, but has no value: &lt;b&gt;"},
		"not JSON":               {"/half/save", url.Values{"definition": {`["x"]`}}, http.StatusUnprocessableEntity, "not an object"},
		"null":                   {"/half/save", url.Values{"definition": {`null`}}, http.StatusUnprocessableEntity, "not an object"},
		"a weight twice":         {"/half/save", url.Values{"definition": {`{"weight": 1}`}}, http.StatusUnprocessableEntity, "has its own field"},
		"secrets in the definition": {"/half/save", url.Values{"definition": {`{"secrets": {"token": "very-secret"}}`}},
			http.StatusUnprocessableEntity, "has its own field"},
		"no number": {"/half/save", url.Values{"weight": {"much"}}, http.StatusUnprocessableEntity, "from 0 to 1000"},
		"a secret without a name": {"/half/save", url.Values{"secret_name": {""}}, http.StatusUnprocessableEntity,
			"needs the name"},
		"no name": {"/save", nil, http.StatusUnprocessableEntity, "needs a name"},
		"taken":   {"/save", url.Values{"name": {"fresh2"}}, http.StatusConflict, "There is a provider fresh2 already"},
		"not confirmed": {"/half/delete", url.Values{"confirm": {"other"}}, http.StatusUnprocessableEntity,
			"Type the name half to confirm"},
	} {
		status, text, _ := submit(t, w, at+test.path, form(test.form))
		has(t, what, status, test.status, text, test.want, `role="alert"`)
		if strings.Contains(text, "very-secret") {
			t.Errorf("%s: the page shows the value of a secret", what)
		}
	}
	status, _, to = submit(t, w, at+"/half/delete", url.Values{"confirm": {"half"}})
	if to != Path+at+"?said=provider-deleted" {
		t.Errorf("deleting: %d %s, asked %q", status, to, api.asked)
	}
}

// TestPushProvider changes a provider of push notifications, which keeps its channel, and gives it a key of several
// lines. A definition without a channel is for text messages.
func TestPushProvider(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	api := newProviders()
	api.answers["GET /providers/fcm"] = `{"name":"fcm","channel":"push","service":"fcm","shared":false,
		"url":"https://fcm.example.com","weight":1,"json":{"token":"{{token}}"},"access":{"key":"key"},"secrets":["key"]}`
	api.answers["PUT /providers/fcm"] = ""
	api.serve(w, "notifications.write", "notifications.admin")
	const at = "/notifications/providers/fcm"
	status, text := w.Get(Path + at)
	has(t, "the provider", status, http.StatusOK, text, "Channel: push", "devices of fcm", `<textarea name="secret_value"`)
	if strings.Contains(text, `type="password"`) {
		t.Error("the field of a secret drops line breaks")
	}
	_, shown, _ := strings.Cut(text, `<textarea name="definition"`)
	_, shown, _ = strings.Cut(shown, ">\n")
	shown, _, _ = strings.Cut(shown, "</textarea>")
	shown = html.UnescapeString(shown)
	const sms = `{"url":"https://fcm.example.com"}`
	const key = "-----BEGIN PRIVATE KEY-----\r\nMIIE\r\n-----END PRIVATE KEY-----\r\n"
	const sent = `"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"`
	for what, test := range map[string]struct{ definition, disabled, key, want string }{
		"as it is": {shown, "", "", `{"access":{"key":"key"},"channel":"push","disabled":false,` +
			`"json":{"token":"{{token}}"},"secrets":{},"service":"fcm","url":"https://fcm.example.com","weight":1}`},
		"switched off": {shown, "1", "", `{"access":{"key":"key"},"channel":"push","disabled":true,` +
			`"json":{"token":"{{token}}"},"secrets":{},"service":"fcm","url":"https://fcm.example.com","weight":1}`},
		"another key": {shown, "", key, `{"access":{"key":"key"},"channel":"push","disabled":false,` +
			`"json":{"token":"{{token}}"},"secrets":{"key":` + sent + `},"service":"fcm","url":"https://fcm.example.com","weight":1}`},
		"no channel": {sms, "", "", `{"channel":"sms","disabled":false,"secrets":{},"url":"https://fcm.example.com",` +
			`"weight":1}`},
	} {
		status, _, to := submit(t, w, at+"/save", url.Values{"definition": {test.definition}, "weight": {"1"},
			"disabled": {test.disabled}, "secret_name": {"key"}, "secret_value": {test.key}})
		if status != http.StatusSeeOther || to != Path+at+"?said=provider" || !api.was("PUT /providers/fcm "+test.want) {
			t.Errorf("%s: %d %s, asked %q", what, status, to, api.asked)
		}
	}
	api.answers["PUT /providers/fcm"] = "422: the key is not right"
	status, text, _ = submit(t, w, at+"/save", url.Values{"definition": {shown}, "weight": {"1"}, "secret_name": {"key"},
		"secret_value": {key}})
	has(t, "refused", status, http.StatusUnprocessableEntity, text, "the key is not right",
		"&#34;channel&#34;: &#34;push&#34;")
	if strings.Contains(text, "MIIE") {
		t.Error("the page shows the value of a secret")
	}
}

// TestProvidersOfOthers shows no form for shared providers to users who may not manage them.
func TestProvidersOfOthers(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	api := newProviders()
	api.serve(w, "notifications.write")
	status, text := w.Get(Path + "/notifications/new-provider")
	has(t, "a new one", status, http.StatusOK, text, "Secret token")
	if strings.Contains(text, `name="shared"`) {
		t.Error("a user who is no administrator is offered to share a provider")
	}
	api.serve(w, "notification_templates.read")
	for _, path := range []string{"/new-provider", "/providers", "/providers/half"} {
		status, text = w.Get(Path + "/notifications" + path)
		has(t, path, status, http.StatusForbidden, text, "You need the scope notifications.manage")
	}
}
