package httpext_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"ingot/internal/notify/apitest"
)

// warnings returns the decoded warnings of an answer.
func warnings(t *testing.T, a apitest.Answer) []string {
	t.Helper()
	var all []string
	for _, line := range a.Header.Values("X-Notifications-Warnings") {
		if strings.ContainsAny(line, "\r\n, ") {
			t.Errorf("the header %q is not encoded", line)
		}
		text, err := url.QueryUnescape(line)
		if err != nil {
			t.Errorf("the header %q: %v", line, err)
		}
		all = append(all, text)
	}
	return all
}

// unknownCase is a request with a field that the API does not have.
type unknownCase struct {
	version      int
	route        string // method and pattern
	path, body   string
	status       int
	field, close string
}

// TestUnknownFields sends an unknown field to every route of both versions that
// takes a body. Where the original service ignores it, the response names it; where
// it refuses it, the error stays and the response names it too. Routes that only
// this service has refuse it by name.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	user := w.User("u-1", "notification_preferences.write", "notification_templates.write", "notifications.admin")
	w.Directory.Users["u-1"] = "u1@example.com"
	w.Directory.Members["s-1"], w.Directory.Members["o-1"], w.Directory.Members["sc"] = []string{"u-1"}, []string{"u-1"},
		[]string{"u-1"}
	var template struct {
		ID string `json:"template-id"`
	}
	w.Expect(1, c, "POST", "/templates", `{"name":"n","html":"{{.HTML}}"}`, 201, "").Into(&template)
	var sender, kind, look struct{ ID string }
	w.Expect(2, c, "POST", "/senders", `{"name":"s"}`, 201, "").Into(&sender)
	w.Expect(2, c, "POST", "/senders/"+sender.ID+"/campaign_types", `{"name":"t","description":"d"}`, 201, "").Into(&kind)
	w.Expect(2, c, "POST", "/templates", `{"name":"x","text":"{{.Text}}"}`, 201, "").Into(&look)

	cases := []unknownCase{
		{1, "PUT /notifications", "", `{"source_name":"S","notifications":{"news":{"description":"d","critcal":true}}}`, 400,
			"notifications.news.critcal", "critical"},
		{1, "PUT /registration", "",
			`{"source_description":"S","kinds":[{"id":"news","description":"d"},{"id":"fire","description":"d","critcal":true}]}`, 200, "kinds[1].critcal", "critical"},
		{1, "PUT /clients/{client}/notifications/{kind}", "/clients/shop/notifications/news",
			`{"description":"d","critical":false,"template":"","templat":"x"}`, 400, "templat", "template"},
		{1, "POST /templates", "", `{"name":"n","html":"h","subjct":"s"}`, 400, "subjct", "subject"},
		{1, "PUT /templates/{template}", "/templates/" + template.ID, `{"name":"n","html":"h","colour":"s"}`, 400,
			"colour", ""},
		{1, "PUT /default_template", "", `{"name":"n","html":"h","colour":"s"}`, 400, "colour", ""},
		{1, "PUT /clients/{client}/template", "/clients/shop/template", `{"template":"","template_id":"x"}`, 204,
			"template_id", ""},
		{1, "PUT /clients/{client}/notifications/{kind}/template", "/clients/shop/notifications/news/template",
			`{"Template":"","templatee":"x"}`, 204, "templatee", "template"},
		{1, "POST /templates/{template}/test", "/templates/" + template.ID + "/test", `{"data":{}}`, 200, "data", ""},
		{1, "POST /clients/{client}/notifications/{kind}/test", "/clients/shop/notifications/news/test", `{"Txt":"x"}`, 200,
			"Txt", "text"},
		{1, "PATCH /user_preferences", "", `{"clients":{"shop":{"news":{"email":true,"kind_description":"d","sms":false}}}}`,
			204, "clients.shop.news.sms", ""},
		{1, "PATCH /user_preferences/{user}", "/user_preferences/u-1",
			`{"clients":{"shop":{"news":{"email":true,"emial":false}}}}`, 204, "clients.shop.news.emial", "email"},
		{1, "POST /users/{id}", "/users/u-1", `{"kind_id":"news","text":"t","send_at":"2030-01-01T00:00:00Z"}`, 200,
			"send_at", ""},
		{1, "POST /spaces/{id}", "/spaces/s-1", `{"kind_idd":"news","text":"t"}`, 422, "kind_idd", "kind_id"},
		{1, "POST /organizations/{id}", "/organizations/o-1", `{"kind_id":"news","text":"t","roles":["OrgManager"]}`, 200,
			"roles", "role"},
		{1, "POST /everyone", "", `{"KIND_ID":"news","text":"t","data":{"a":1}}`, 200, "data", ""},
		{1, "POST /uaa_scopes/{id}", "/uaa_scopes/sc", `{"kind_id":"news","text":"t","replyto":"a@example.com"}`, 200,
			"replyto", "reply_to"},
		{1, "POST /emails", "", `{"to":"a@example.com","text":"t","cc":"b@example.com"}`, 200, "cc", ""},
		{1, "POST /templates/preview", "", `{"template":{"colour":"x"}}`, 422, "colour", ""},
		{1, "PUT /templates/{template}/variants/{locale}", "/templates/" + template.ID + "/variants/de", `{"colour":"x"}`, 422,
			"colour", ""},
		{1, "POST /templates/{template}/rollback", "/templates/" + template.ID + "/rollback", `{"version":1,"colour":"x"}`, 422,
			"colour", ""},
		{1, "PUT /partials/{partial}", "/partials/p", `{"colour":"x"}`, 422, "colour", ""},
		{1, "POST /templates/check", "", `{"colour":"x"}`, 422, "colour", ""},
		{1, "POST /sends", "", `{"kind_id":"news","recipients":[{"user":"u-1","colour":"x"}]}`, 422, "colour", ""},
		{1, "POST /webhooks", "", `{"url":"https://example.com","colour":"x"}`, 422, "colour", ""},
		{1, "PUT /kinds/{kind}/workflow", "/kinds/news/workflow", `{"steps":[{"channel":"email"}],"colour":"x"}`, 422, "colour", ""},
		{1, "PUT /kinds/{kind}/throttle", "/kinds/news/throttle", `{"limit":1,"window":"1h","colour":"x"}`, 422, "colour", ""},
		{1, "PUT /kinds/{kind}/retention", "/kinds/news/retention", `{"retention":"1h","colour":"x"}`, 422, "colour", ""},
		{1, "PUT /kinds/{kind}/tracking", "/kinds/news/tracking", `{"opens":true,"colour":"x"}`, 422, "colour", ""},
		{1, "PUT /kinds/{kind}/digest", "/kinds/news/digest", `{"window":"1h","colour":"x"}`, 422, "colour", ""},
		{1, "PUT /kinds/{kind}/channels", "/kinds/news/channels", `{"channels":["email"],"colour":"x"}`, 422, "colour", ""},
		{1, "PUT /campaign_types/{type}/channels", "/campaign_types/" + kind.ID + "/channels",
			`{"channels":["email"],"colour":"x"}`, 422, "colour", ""},
		{1, "PUT /destinations/{channel}", "/destinations/chat", `{"url":"https://example.com","colour":"x"}`, 422, "colour", ""},
		{1, "PATCH /preferences", "", `{"clients":{"shop":{"kinds":{"news":{"colour":true}}}}}`, 422, "colour", ""},
		{1, "PATCH /preferences/{user}", "/preferences/u-1", `{"colour":true}`, 422, "colour", ""},
		{1, "PUT /providers/{provider}", "/providers/p", `{"channel":"sms","url":"https://example.com","colour":"x"}`, 422,
			"colour", ""},
		{1, "POST /erasures", "", `{"user_id":"u-1","colour":"x"}`, 422, "colour", ""},
		{1, "PUT /topics/{topic}", "/topics/t", `{"colour":"x"}`, 422, "colour", ""},
		{1, "POST /topics/{topic}/subscribers", "/topics/t/subscribers", `{"subscribers":[{"user":"u","colour":"x"}]}`, 422,
			"colour", ""},
		{1, "POST /topics/{topic}/sends", "/topics/t/sends", `{"kind_id":"news","colour":"x"}`, 422, "colour", ""},
		{1, "PUT /recurring_sends/{name}", "/recurring_sends/x", `{"cron":"@daily","send":{"colour":"x"}}`, 422, "colour", ""},
		{1, "POST /recurring_sends/{name}/pause", "/recurring_sends/x/pause", `{"colour":"x"}`, 404, "", ""},
		{1, "POST /recurring_sends/{name}/resume", "/recurring_sends/x/resume", `{"colour":"x"}`, 404, "", ""},
		{1, "POST /inbox/tokens", "", `{"user_id":"u-1","colour":"x"}`, 422, "colour", ""},
		{1, "POST /push_subscriptions", "", `{"client_id":"shop","colour":"x"}`, 422, "colour", ""},
		{1, "POST /inbox/push_subscriptions", "", `{"colour":"x"}`, 422, "colour", ""},
		{1, "PUT /inbox/origins", "", `{"origins":[],"colour":"x"}`, 422, "colour", ""},
		{1, "PATCH /inbox/notifications/{notification}", "/inbox/notifications/x", `{"read":true,"colour":"x"}`, 422,
			"colour", ""},

		{2, "POST /senders", "", `{"name":"s2","description":"x"}`, 201, "description", ""},
		{2, "PUT /senders/{sender}", "/senders/" + sender.ID, `{"id":"x","_links":{},"nam":"s3"}`, 200, "nam", "name"},
		{2, "POST /senders/{sender}/campaign_types", "/senders/" + sender.ID + "/campaign_types",
			`{"name":"t2","description":"d","critcal":true}`, 201, "critcal", "critical"},
		{2, "PUT /campaign_types/{type}", "/campaign_types/" + kind.ID, `{"template":"x"}`, 200, "template", ""},
		{2, "POST /templates", "", `{"name":"x","text":"t","txt":"y"}`, 201, "txt", "text"},
		{2, "PUT /templates/{template}", "/templates/" + look.ID, `{"colour":"y"}`, 200, "colour", ""},
		{2, "PUT /templates/default", "", `{"colour":"y"}`, 200, "colour", ""},
		{2, "POST /senders/{sender}/campaigns", "/senders/" + sender.ID + "/campaigns",
			`{"send_to":{"users":["u-1"]},"campaign_type_id":"` + kind.ID + `","text":"t","subject":"s","send_at":"2030"}`, 202,
			"send_at", ""},
		{2, "POST /templates/preview", "", `{"template":{"colour":"x"}}`, 422, "colour", ""},
		{2, "PUT /templates/{template}/variants/{locale}", "/templates/" + look.ID + "/variants/de", `{"colour":"x"}`, 422,
			"colour", ""},
		{2, "POST /templates/{template}/rollback", "/templates/" + look.ID + "/rollback", `{"version":1,"colour":"x"}`, 422,
			"colour", ""},
		{2, "PUT /partials/{partial}", "/partials/p", `{"colour":"x"}`, 422, "colour", ""},
		{2, "POST /templates/check", "", `{"colour":"x"}`, 422, "colour", ""},
		{2, "POST /sends", "", `{"kind_id":"news","recipients":[{"user":"u-1","colour":"x"}]}`, 422, "colour", ""},
		{2, "POST /webhooks", "", `{"url":"https://example.com","colour":"x"}`, 422, "colour", ""},
		{2, "PUT /kinds/{kind}/workflow", "/kinds/news/workflow", `{"steps":[{"channel":"email"}],"colour":"x"}`, 422, "colour", ""},
		{2, "PUT /kinds/{kind}/throttle", "/kinds/news/throttle", `{"limit":1,"window":"1h","colour":"x"}`, 422, "colour", ""},
		{2, "PUT /kinds/{kind}/retention", "/kinds/news/retention", `{"retention":"1h","colour":"x"}`, 422, "colour", ""},
		{2, "PUT /kinds/{kind}/tracking", "/kinds/news/tracking", `{"opens":true,"colour":"x"}`, 422, "colour", ""},
		{2, "PUT /kinds/{kind}/digest", "/kinds/news/digest", `{"window":"1h","colour":"x"}`, 422, "colour", ""},
		{2, "PUT /kinds/{kind}/channels", "/kinds/news/channels", `{"channels":["email"],"colour":"x"}`, 422, "colour", ""},
		{2, "PUT /campaign_types/{type}/channels", "/campaign_types/" + kind.ID + "/channels",
			`{"channels":["email"],"colour":"x"}`, 422, "colour", ""},
		{2, "PUT /destinations/{channel}", "/destinations/chat", `{"url":"https://example.com","colour":"x"}`, 422, "colour", ""},
		{2, "PATCH /preferences", "", `{"clients":{"shop":{"kinds":{"news":{"colour":true}}}}}`, 422, "colour", ""},
		{2, "PATCH /preferences/{user}", "/preferences/u-1", `{"colour":true}`, 422, "colour", ""},
		{2, "PUT /providers/{provider}", "/providers/p", `{"channel":"sms","url":"https://example.com","colour":"x"}`, 422,
			"colour", ""},
		{2, "POST /erasures", "", `{"user_id":"u-1","colour":"x"}`, 422, "colour", ""},
		{2, "PUT /topics/{topic}", "/topics/t", `{"colour":"x"}`, 422, "colour", ""},
		{2, "POST /topics/{topic}/subscribers", "/topics/t/subscribers", `{"subscribers":[{"user":"u","colour":"x"}]}`, 422,
			"colour", ""},
		{2, "POST /topics/{topic}/sends", "/topics/t/sends", `{"kind_id":"news","colour":"x"}`, 422, "colour", ""},
		{2, "PUT /recurring_sends/{name}", "/recurring_sends/x", `{"cron":"@daily","send":{"colour":"x"}}`, 422, "colour", ""},
		{2, "POST /recurring_sends/{name}/pause", "/recurring_sends/x/pause", `{"colour":"x"}`, 404, "", ""},
		{2, "POST /recurring_sends/{name}/resume", "/recurring_sends/x/resume", `{"colour":"x"}`, 404, "", ""},
		{2, "POST /inbox/tokens", "", `{"user_id":"u-1","colour":"x"}`, 422, "colour", ""},
		{2, "POST /push_subscriptions", "", `{"client_id":"shop","colour":"x"}`, 422, "colour", ""},
		{2, "POST /inbox/push_subscriptions", "", `{"colour":"x"}`, 422, "colour", ""},
		{2, "PUT /inbox/origins", "", `{"origins":[],"colour":"x"}`, 422, "colour", ""},
		{2, "PATCH /inbox/notifications/{notification}", "/inbox/notifications/x", `{"read":true,"colour":"x"}`, 422,
			"colour", ""},
	}
	for _, tc := range cases {
		method, path, _ := strings.Cut(tc.route, " ")
		if tc.path != "" {
			path = tc.path
		}
		bearer := c
		if strings.HasSuffix(path, "/test") || path == "/user_preferences" || path == "/preferences" ||
			path == "/push_subscriptions" {
			bearer = user
		}
		if strings.HasPrefix(path, "/inbox/notifications") || path == "/inbox/push_subscriptions" {
			bearer = inboxToken(t, w, "shop", "u-1")
		}
		a := w.Expect(tc.version, bearer, method, path, tc.body, tc.status, "")
		if slices.Contains([]string{"/templates/preview", "/templates/check", "/webhooks", "/sends", "/erasures"},
			path) ||
			strings.Contains(path, "/variants/") || strings.Contains(path, "/channels") || strings.Contains(path, "/workflow") ||
			strings.HasSuffix(path, "/digest") || strings.HasSuffix(path, "/throttle") ||
			strings.HasSuffix(path, "/retention") || strings.HasSuffix(path, "/tracking") ||
			strings.HasPrefix(path, "/partials/") || strings.HasSuffix(path, "/rollback") ||
			strings.HasPrefix(path, "/destinations") || strings.HasPrefix(path, "/providers") ||
			strings.HasPrefix(path, "/preferences") || strings.HasPrefix(path, "/topics") ||
			strings.HasPrefix(path, "/recurring_sends") || strings.HasPrefix(path, "/inbox/") || path == "/push_subscriptions" {
			if !strings.Contains(a.Message(), tc.field) {
				t.Errorf("v%d %s: %q does not name %s", tc.version, tc.route, a.Message(), tc.field)
			}
			continue
		}
		want := fmt.Sprintf("%q is not a field of this request and has no effect.", tc.field)
		if tc.close != "" {
			want = fmt.Sprintf("%q is not a field of this request and has no effect; did you mean %q?", tc.field, tc.close)
		}
		if got := warnings(t, a); !slices.Equal(got, []string{want}) {
			t.Errorf("v%d %s: warnings %q, want %q", tc.version, tc.route, got, want)
		}
	}
	for version, routes := range w.Routes {
		for _, r := range routes {
			takesBody := r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch
			if !takesBody || noBody[r.Method+" "+r.Pattern] {
				continue
			}
			if !slices.ContainsFunc(cases, func(tc unknownCase) bool {
				return tc.version == version && tc.route == r.Method+" "+
					r.Pattern
			}) {
				t.Errorf("v%d %s %s is not in this test", version, r.Method, r.Pattern)
			}
		}
	}
}

// noBody are the routes that ignore a body.
var noBody = map[string]bool{
	"PUT /kinds/{kind}/schema":        true, // any field is one of a schema
	"POST /attachments":               true, // a file
	"POST /inbox/read_all":            true,
	"POST /messages/{message}/replay": true, "PUT /suppressions/{email}": true,
	"POST /unsubscribe/{token}":                       true, // a form
	"PUT /campaign_types/{type}/unsubscribers/{user}": true,
}

// However many and however strange the unknown fields are, the headers are few,
// short and encoded.
func TestManyUnknownFields(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	w.Directory.Users["u-1"] = "u1@example.com"
	strange := []string{"a\r\nSet-Cookie: x=y", "a,b", "%0d%0a", "ü\u2028", strings.Repeat("ß", 100_000), "\x00", `"`, ""}
	body := map[string]any{"kind_id": "news", "text": "t"}
	for _, name := range strange {
		body[name] = 1
	}
	for i := range 1000 {
		body[fmt.Sprint("field-", i, strings.Repeat("🙂", 100))] = i
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	a := w.Expect(1, c, "POST", "/users/u-1", string(raw), 200, "")
	lines, size := a.Header.Values("X-Notifications-Warnings"), 0
	for _, l := range lines {
		size += len(l)
	}
	all := warnings(t, a)
	if len(lines) < 2 || len(lines) > 11 || size > 5000 || !strings.HasPrefix(all[len(all)-1],
		"More unknown fields without effect: ") {
		t.Errorf("%d headers with %d bytes: %q", len(lines), size, all)
	}
	if a := w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"news","text":"t","role":""}`, 200,
		""); len(warnings(t, a)) != 0 {
		t.Errorf("a request without unknown fields has warnings: %q", warnings(t, a))
	}
}
