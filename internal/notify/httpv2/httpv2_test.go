package httpv2_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/apitest"
)

type resource struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Critical    bool   `json:"critical"`
	TemplateID  string `json:"template_id"`
	Text        string `json:"text"`
	HTML        string `json:"html"`
	Subject     string `json:"subject"`
	Links       map[string]struct {
		Href string `json:"href"`
	} `json:"_links"`
}

func make2(t *testing.T, w *apitest.World, bearer, path, body string) resource {
	t.Helper()
	var made resource
	w.Expect(2, bearer, "POST", path, body, 201, "").Into(&made)
	return made
}

func status(a apitest.Answer) string {
	return strings.TrimSpace(fmt.Sprint(a.Status, " ", a.Message()))
}

func TestRoot(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	if a := w.Expect(2, "", "GET", "/info", "", 200, ""); strings.TrimSpace(a.Body) != `{"version":2}` {
		t.Errorf("info: %s", a.Body)
	}
	var root resource
	w.Expect(2, "", "GET", "/", "", 200, "").Into(&root)
	if root.Links["senders"].Href != "/senders" || root.Links["templates"].Href != "/templates" {
		t.Errorf("root: %+v", root)
	}
}

func TestSenders(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c, other := w.Client("shop"), w.Client("other")
	s := make2(t, w, c, "/senders", `{"name":"shop","more":1}`)
	if again := make2(t, w, c, "/senders", `{"name":"shop"}`); again.ID != s.ID {
		t.Error("the same name made another sender")
	}
	if theirs := make2(t, w, other, "/senders", `{"name":"shop"}`); theirs.ID == s.ID {
		t.Error("another client got our sender")
	}
	if s.Links["campaigns"].Href != "/senders/"+s.ID+"/campaigns" {
		t.Errorf("links: %v", s.Links)
	}
	var list struct{ Senders []resource }
	w.Expect(2, c, "GET", "/senders", "", 200, "").Into(&list)
	if len(list.Senders) != 1 || list.Senders[0].ID != s.ID {
		t.Errorf("list: %+v", list)
	}
	second := make2(t, w, c, "/senders", `{"name":"second"}`)
	for _, c0 := range []struct{ bearer, method, path, body, want string }{
		{c, "POST", "/senders", ``, "400 invalid json body"},
		{c, "POST", "/senders", `{"name":7}`, "400 invalid json body"},
		{c, "POST", "/senders", `{}`, "422 missing sender name"},
		{c, "GET", "/senders/" + s.ID, ``, "200"},
		{c, "PUT", "/senders/" + s.ID, `{"name":"second"}`, `422 Sender with name "second" already exists`},
		{c, "PUT", "/senders/" + s.ID, `{"name":"renamed"}`, "200"},
		{c, "PUT", "/senders/" + s.ID, `{}`, "200"},
		{c, "PUT", "/senders/" + s.ID, `{"name":""}`, "422 missing sender name"},
		{other, "GET", "/senders/" + s.ID, ``, fmt.Sprintf("404 Sender with id %q could not be found", s.ID)},
		{other, "PUT", "/senders/" + s.ID, `{"name":"x"}`, fmt.Sprintf("404 Sender with id %q could not be found", s.ID)},
		{other, "DELETE", "/senders/" + s.ID, ``, fmt.Sprintf("404 Sender with id %q could not be found", s.ID)},
		{c, "DELETE", "/senders/" + second.ID, ``, "204"},
		{c, "GET", "/senders/" + second.ID, ``, fmt.Sprintf("404 Sender with id %q could not be found", second.ID)},
	} {
		if got := status(w.Call(2, c0.bearer, c0.method, c0.path, c0.body)); got != c0.want {
			t.Errorf("%s %s %s: %s, want %s", c0.method, c0.path, c0.body, got, c0.want)
		}
	}
}

func TestCampaignTypes(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c, other, plain := w.Client("shop"), w.Client("other"), w.Client("shop", "notifications.write")
	s := make2(t, w, c, "/senders", `{"name":"shop"}`)
	types := "/senders/" + s.ID + "/campaign_types"
	look := make2(t, w, c, "/templates", `{"name":"n","text":"t"}`)
	kind := make2(t, w, c, types, `{"name":"news","description":"d","template_id":"`+look.ID+`"}`)
	if kind.TemplateID != look.ID || kind.Links["self"].Href != "/campaign_types/"+kind.ID {
		t.Errorf("made: %+v", kind)
	}
	if again := make2(t, w, c, types, `{"name":"news","description":"other"}`); again.ID != kind.ID ||
		again.Description != "d" {
		t.Errorf("the same name: %+v", again)
	}
	fire := make2(t, w, c, types, `{"name":"fire","description":"d","critical":true}`)
	path := "/campaign_types/" + kind.ID
	gone := fmt.Sprintf("404 Campaign type with id %q could not be found", kind.ID)
	for _, c0 := range []struct{ bearer, method, path, body, want string }{
		{c, "POST", types, `{"description":"d"}`, "422 missing campaign type name"},
		{c, "POST", types, `{"name":"x"}`, "422 missing campaign type description"},
		{c, "POST", types, `nope`, "400 invalid json body"},
		{plain, "POST", types, `{"name":"x","description":"d","critical":true}`,
			"403 You do not have permission to create critical campaign types"},
		{c, "POST", types, `{"name":"x","description":"d","template_id":"default"}`,
			`404 Template with id "default" could not be found`},
		{other, "POST", types, `{"name":"x","description":"d"}`,
			fmt.Sprintf("404 Sender with id %q could not be found", s.ID)},
		{other, "GET", types, ``, "404 sender not found"},
		{c, "GET", types, ``, "200"},
		{other, "GET", path, ``, gone},
		{c, "PUT", path, `{"name":"","description":""}`, "422 name cannot be blank, description cannot be blank"},
		{c, "PUT", path, `{"name":"fire"}`, `422 Campaign type with name "fire" already exists`},
		{plain, "PUT", path, `{"critical":true}`,
			"403 Forbidden: cannot update campaign type with critical flag set to true"},
		{plain, "PUT", "/campaign_types/" + fire.ID, `{"name":"fire2"}`,
			"403 Forbidden: cannot update campaign type with critical flag set to true"},
		{c, "PUT", path, `{"description":"new"}`, "200"},
		{other, "DELETE", path, ``, gone},
		{c, "DELETE", path, ``, "204"},
		{c, "DELETE", path, ``, gone},
		{c, "DELETE", "/senders/" + s.ID, ``, "204"},
		{c, "GET", "/campaign_types/" + fire.ID, ``, fmt.Sprintf("404 Campaign type with id %q could not be found", fire.ID)},
	} {
		if got := status(w.Call(2, c0.bearer, c0.method, c0.path, c0.body)); got != c0.want {
			t.Errorf("%s %s %s: %s, want %s", c0.method, c0.path, c0.body, got, c0.want)
		}
	}
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c, other, plain := w.Client("shop"), w.Client("other"), w.Client("shop", "notifications.write")
	made := make2(t, w, c, "/templates", `{"name":"n","text":"{{.Text}}"}`)
	if made.Subject != "{{.Subject}}" || made.Links["self"].Href != "/templates/"+made.ID {
		t.Errorf("made: %+v", made)
	}
	path := "/templates/" + made.ID
	gone := fmt.Sprintf("404 Template with id %q could not be found", made.ID)
	for _, c0 := range []struct{ bearer, method, path, body, want string }{
		{c, "POST", "/templates", `{"text":"t"}`, `422 Template "name" field cannot be empty`},
		{c, "POST", "/templates", `{"name":"n"}`, "422 missing either template text or html"},
		{c, "POST", "/templates", `x`, "400 invalid json body"},
		{c, "PUT", path, `x`, "400 malformed JSON request"},
		{c, "PUT", path, `{"text":""}`, "422 missing either template text or html"},
		{c, "PUT", path, `{"html":"<p>h</p>"}`, "200"},
		{other, "GET", path, ``, gone},
		{other, "PUT", path, `{"name":"x"}`, gone},
		{other, "DELETE", path, ``, gone},
		{other, "GET", "/templates/default", ``, "200"},
		{plain, "PUT", "/templates/default", `{"name":"x"}`, "403 You are not authorized to perform the requested action"},
		{c, "PUT", "/templates/default", `{"name":"x"}`, "200"},
		{c, "PUT", "/templates/default", `{"text":"{{.Text}} again"}`, "200"},
		{c, "DELETE", path, ``, "204"},
		{c, "GET", path, ``, gone},
	} {
		if got := status(w.Call(2, c0.bearer, c0.method, c0.path, c0.body)); got != c0.want {
			t.Errorf("%s %s %s: %s, want %s", c0.method, c0.path, c0.body, got, c0.want)
		}
	}
	if a := w.Call(2, c, "DELETE", "/templates/default", ""); a.Status != 422 {
		t.Errorf("delete the default: %d %s", a.Status, a.Body)
	}
	if a := w.Call(2, c, "POST", "/templates", `{"name":"n","text":"{{.Text"}`); a.Status != 422 {
		t.Errorf("a broken template: %d %s", a.Status, a.Body)
	}
	var shown resource
	w.Expect(2, other, "GET", "/templates/default", "", 200, "").Into(&shown)
	if shown.ID != "default" || shown.Name != "x" || shown.Text != "{{.Text}} again" {
		t.Errorf("default: %+v", shown)
	}
	if got := w.Expect(1, c, "GET", "/default_template", "", 200, "").Body; strings.Contains(got, `"name":"x"`) {
		t.Errorf("the default of version 1 changed too: %s", got)
	}
}

func TestCampaigns(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Directory.People(2)
	w.Directory.Members["space-1"] = []string{"user-00000", "user-00001"}
	c, other, plain := w.Client("shop"), w.Client("other"), w.Client("shop", "notifications.write")
	s := make2(t, w, c, "/senders", `{"name":"shop"}`)
	news := make2(t, w, c, "/senders/"+s.ID+"/campaign_types", `{"name":"news","description":"d"}`)
	fire := make2(t, w, c, "/senders/"+s.ID+"/campaign_types", `{"name":"fire","description":"d","critical":true}`)
	path := "/senders/" + s.ID + "/campaigns"
	body := func(sendTo, more string) string {
		return `{"send_to":` + sendTo + `,"campaign_type_id":"` + news.ID + `","text":"t","subject":"s"` + more + `}`
	}
	for _, c0 := range []struct{ bearer, body, want string }{
		{c, `x`, "400 invalid json body"},
		{c, body(`{"users":"u"}`, ""), "400 invalid json body"},
		{c, body(`{"bananas":["u"]}`, ""), `422 "bananas" is not a valid audience`},
		{c, body(`{"emails":["a@example.com","bad-email"]}`, ""), `422 "bad-email" is not a valid email address`},
		{c, body(`{"emails":[]}`, ""), "422 missing send_to"},
		{c, body(`{}`, ""), "422 missing send_to"},
		{c, `{"send_to":{"users":["u"]},"text":"t","subject":"s"}`, "422 missing campaign_type_id"},
		{c, `{"send_to":{"users":["u"]},"campaign_type_id":"x","subject":"s"}`, "422 missing either campaign text or html"},
		{c, `{"send_to":{"users":["u"]},"campaign_type_id":"x","text":"t"}`, "422 missing subject"},
		{c, `{"send_to":{"users":["u"]},"campaign_type_id":"x","text":"t","subject":"s"}`,
			`404 Campaign type with id "x" could not be found`},
		{c, body(`{"users":["u"]}`, `,"template_id":"x"`), `404 Template with id "x" could not be found`},
		{other, body(`{"users":["u"]}`, ""), fmt.Sprintf("404 Sender with id %q could not be found", s.ID)},
		{plain, strings.Replace(body(`{"users":["u"]}`, ""), news.ID, fire.ID, 1),
			"403 Scope critical_notifications.write is required"},
	} {
		if got := status(w.Call(2, c0.bearer, "POST", path, c0.body)); !strings.HasPrefix(got, c0.want) {
			t.Errorf("%s: %s, want %s", c0.body, got, c0.want)
		}
	}

	var made resource
	w.Expect(2, c, "POST", path, body(`{"users":["user-00000"],"emails":["x@example.com"]}`, ""), 202, "").Into(&made)
	if made.TemplateID != "default" || made.Links["status"].Href != "/campaigns/"+made.ID+"/status" {
		t.Errorf("made: %+v", made)
	}
	if a := w.Expect(2, c, "GET", "/campaigns/"+made.ID, "", 200,
		""); !strings.Contains(a.Body, `"send_to":{"emails":["x@example.com"],"users":["user-00000"]}`) {
		t.Errorf("shown: %s", a.Body)
	}
	gone := fmt.Sprintf("Campaign with id %q could not be found", made.ID)
	w.Expect(2, other, "GET", "/campaigns/"+made.ID, "", 404, gone)
	w.Expect(2, other, "GET", "/campaigns/"+made.ID+"/status", "", 404, gone)

	var state struct {
		Status    string     `json:"status"`
		Total     int        `json:"total_messages"`
		Sent      int        `json:"sent_messages"`
		Queued    int        `json:"queued_messages"`
		Failed    int        `json:"failed_messages"`
		Completed *time.Time `json:"completed_time"`
	}
	w.Expect(2, c, "GET", "/campaigns/"+made.ID+"/status", "", 200, "").Into(&state)
	if state.Status != "sending" || state.Total != 2 || state.Queued != 2 || state.Completed != nil {
		t.Errorf("at first: %+v", state)
	}
	claimed, err := w.Store.Claim(t.Context(), "test", 10, time.Minute)
	if err != nil || len(claimed) != 2 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	outcomes := []notify.Outcome{
		{Number: claimed[0].Number, Status: notify.Delivered, Attempted: true, At: time.Now()},
		{Number: claimed[1].Number, Status: notify.Failed, Attempted: true, At: time.Now()},
	}
	if _, err := w.Store.Finish(t.Context(), outcomes, nil); err != nil {
		t.Fatal(err)
	}
	w.Expect(2, c, "GET", "/campaigns/"+made.ID+"/status", "", 200, "").Into(&state)
	if state.Status != "completed" || state.Sent != 1 || state.Failed != 1 || state.Completed == nil {
		t.Errorf("at last: %+v", state)
	}
	w.Expect(2, c, "DELETE", "/senders/"+s.ID, "", 204, "")
	w.Expect(2, c, "GET", "/campaigns/"+made.ID, "", 404, gone)
}

func TestUnsubscribers(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	w.Directory.People(1)
	c := w.Client("shop")
	s := make2(t, w, c, "/senders", `{"name":"shop"}`)
	news := make2(t, w, c, "/senders/"+s.ID+"/campaign_types", `{"name":"news","description":"d"}`)
	fire := make2(t, w, c, "/senders/"+s.ID+"/campaign_types", `{"name":"fire","description":"d","critical":true}`)
	me := w.User("user-00000", "notification_preferences.write")
	path := func(kind, user string) string { return "/campaign_types/" + kind + "/unsubscribers/" + user }
	for _, c0 := range []struct{ bearer, method, path, want string }{
		{me, "PUT", path(news.ID, "user-00000"), "204"},
		{me, "PUT", path(news.ID, "user-00000"), "204"},
		{c, "PUT", path(news.ID, "user-00000"), "204"},
		{me, "PUT", path(news.ID, "user-00001"), "403 You are not authorized to perform the requested action"},
		{w.User("user-00000", "notification_preferences.admin"), "PUT", path(news.ID, "user-00000"),
			"403 You are not authorized to perform the requested action"},
		{me, "PUT", path("none", "user-00000"), `404 Campaign type with id "none" could not be found`},
		{me, "PUT", path(fire.ID, "user-00000"), fmt.Sprintf("403 Campaign type %q cannot be unsubscribed from", fire.ID)},
		{c, "PUT", path(news.ID, "nobody"), `404 User "nobody" not found`},
	} {
		if got := status(w.Call(2, c0.bearer, c0.method, c0.path, "")); got != c0.want {
			t.Errorf("%s %s: %s, want %s", c0.method, c0.path, got, c0.want)
		}
	}
	off := func() bool {
		t.Helper()
		user := notify.Subscription{UserID: "user-00000", KindRef: notify.KindRef{KindID: news.ID}}
		found, err := w.Store.Unsubscribed(t.Context(), []notify.Subscription{user})
		if err != nil {
			t.Fatal(err)
		}
		return found[user].Unwanted == notify.UnwantedAll
	}
	if !off() {
		t.Error("the user is still on the list")
	}
	for range 2 {
		w.Expect(2, me, "DELETE", path(news.ID, "user-00000"), "", 204, "")
	}
	if off() {
		t.Error("the user is off the list")
	}
}
