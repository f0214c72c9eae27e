package httpv1_test

import (
	"strings"
	"testing"

	"ingot/internal/notify"
	"ingot/internal/notify/apitest"
)

func create(t *testing.T, w *apitest.World, bearer, body string) string {
	t.Helper()
	var made map[string]string
	w.Expect(1, bearer, "POST", "/templates", body, 201, "").Into(&made)
	if len(made) != 1 || made["template-id"] == "" {
		t.Fatalf("a created template is answered with %v, want nothing but template-id", made)
	}
	return made["template-id"]
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client("shop")
	id := create(t, w, c, `{"name":"Big 🎉","subject":"S {{.Subject}}","text":"T {{.Text}}","html":"<b>{{.HTML}}</b>","metadata":{"a":[1]}}`)
	plain := create(t, w, c, `{"name":"","html":null}`)

	var list map[string]struct{ Name string }
	w.Expect(1, c, "GET", "/templates", "", 200, "").Into(&list)
	if len(list) != 2 || list[id].Name != "Big 🎉" {
		t.Errorf("list: %v", list)
	}
	var shown struct {
		Name, Subject, HTML, Text string
		Metadata                  any
	}
	w.Expect(1, c, "GET", "/templates/"+plain, "", 200, "").Into(&shown)
	if shown.Subject != "{{.Subject}}" || shown.Text != "" || len(shown.Metadata.(map[string]any)) != 0 {
		t.Errorf("defaults: %+v", shown)
	}
	w.Expect(1, c, "PUT", "/templates/"+id, `{"name":"n","html":"h"}`, 204, "")
	w.Expect(1, c, "GET", "/templates/"+id, "", 200, "").Into(&shown)
	if shown.Name != "n" || shown.HTML != "h" || shown.Text != "" || shown.Subject != "{{.Subject}}" {
		t.Errorf("replaced: %+v", shown)
	}
	for body, want := range map[string]string{
		`{"html":"h"}`:                       "422 Missing required field 'name'",
		`{"Name":"n","html":"h"}`:            "422 Missing required field 'name'",
		`{"name":"n"}`:                       "422 Missing required field 'html'",
		`{"name":"n","html":"h","x":1}`:      "400 Request body could not be parsed",
		`{"name":1,"html":"h"}`:              "400 Request body could not be parsed",
		`[]`:                                 "400 Request body could not be parsed",
		``:                                   "400 Request body could not be parsed",
		`{"name":"n","html":"{{.HTML"}`:      "422 HTML syntax is malformed please check your braces",
		`{"name":"n","html":"","text":"{{"}`: "422 Text syntax is malformed please check your braces",
		`{"name":"n","html":"","subject":"{{.Subject}"}`: "422 Subject syntax is malformed please check your braces",
		`{"name":"n","html":"{{.Unknown}}"}`:             "422 ",
		`{"name":"n","html":"{{call .HTML}}"}`:           "422 ",
	} {
		for _, at := range [][2]string{{"POST", "/templates"}, {"PUT", "/templates/" + id}, {"PUT", "/default_template"}} {
			if got := statusAnd(w.Call(1, c, at[0], at[1], body)); !strings.HasPrefix(got, strings.TrimSpace(want)) {
				t.Errorf("%s %s %s: %s, want %s", at[0], at[1], body, got, want)
			}
		}
	}
	for _, call := range [][2]string{{"GET", ""}, {"PUT", `{"name":"n","html":"h"}`}, {"DELETE", ""}} {
		w.Expect(1, c, call[0], "/templates/nope", call[1], 404, `Template with ID "nope" could not be found`)
	}
}

func TestDefaultTemplate(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client("shop")
	var shown map[string]any
	w.Expect(1, c, "GET", "/default_template", "", 200, "").Into(&shown)
	if shown["name"] != "Default Template" || shown["subject"] != "CF Notification: {{.Subject}}" {
		t.Errorf("default: %v", shown)
	}
	w.Expect(1, c, "GET", "/templates/default", "", 200, "")
	w.Expect(1, c, "DELETE", "/templates/default", "", 422,
		"The default template cannot be deleted; change it with PUT /default_template.")
	w.Expect(1, c, "PUT", "/default_template", `{"name":"mine","html":"{{.HTML}}"}`, 204, "")
	w.Expect(1, c, "GET", "/templates/default", "", 200, "").Into(&shown)
	if shown["name"] != "mine" {
		t.Errorf("changed: %v", shown)
	}
}

func TestAssociations(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client("shop")
	w.Expect(1, c, "PUT", "/notifications", goodRegistration, 204, "")
	id := create(t, w, c, `{"name":"n","html":"h"}`)
	associations := func() string {
		return strings.TrimSpace(w.Expect(1, c, "GET", "/templates/"+id+"/associations", "", 200, "").Body)
	}
	if got := associations(); got != `{"associations":[]}` {
		t.Errorf("none: %s", got)
	}
	body := `{"template":"` + id + `","extra":1}`
	w.Expect(1, c, "PUT", "/clients/shop/notifications/news/template", body, 204, "")
	w.Expect(1, c, "PUT", "/clients/shop/template", body, 204, "")
	if got := associations(); got != `{"associations":[{"client":"shop"},{"client":"shop","notification":"news"}]}` {
		t.Errorf("both: %s", got)
	}
	w.Expect(1, c, "PUT", "/clients/shop/template", `{"template":""}`, 204, "")
	w.Expect(1, c, "PUT", "/clients/shop/notifications/news/template", `{}`, 204, "")
	if got := associations(); got != `{"associations":[]}` {
		t.Errorf("back to the default: %s", got)
	}
	w.Expect(1, c, "PUT", "/clients/shop/template", ``, 400, "Request body could not be parsed")
	w.Expect(1, c, "PUT", "/clients/zzz/template", body, 404, `Client with ID "zzz" could not be found`)
	w.Expect(1, c, "PUT", "/clients/shop/notifications/zz/template", body, 404,
		`Notification with ID "zz" belonging to client "shop" could not be found`)
	w.Expect(1, c, "PUT", "/clients/shop/template", `{"template":"nope"}`, 422, `No template with id "nope"`)

	// A template that goes away leaves the default behind.
	w.Expect(1, c, "PUT", "/clients/shop/notifications/news/template", body, 204, "")
	w.Expect(1, c, "DELETE", "/templates/"+id, "", 204, "")
	var all map[string]struct {
		Notifications map[string]struct{ Template string }
	}
	w.Expect(1, c, "GET", "/notifications", "", 200, "").Into(&all)
	if got := all["shop"].Notifications["news"].Template; got != "default" {
		t.Errorf("after its template was deleted the kind has %q", got)
	}
}

// Templates are seen by all and changed by the client that made them, or an
// administrator, who also changes the default.
func TestTemplatesAreChangedByTheirCreator(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	rights := []string{"notification_templates.read", "notification_templates.write"}
	shop, bank, admin := w.Client("shop", rights...), w.Client("bank", rights...),
		w.Client("operator", "notifications.admin")
	const body = `{"name":"n","html":"h"}`
	id := create(t, w, shop, body)
	w.Expect(1, bank, "GET", "/templates/"+id, "", 200, "")
	refused := `The template "` + id +
		`" was created by another client. Changing or deleting it requires the scope notifications.admin.`
	w.Expect(1, bank, "PUT", "/templates/"+id, body, 403, refused)
	w.Expect(1, bank, "DELETE", "/templates/"+id, "", 403, refused)
	w.Expect(1, shop, "PUT", "/templates/"+id, body, 204, "")
	w.Expect(1, admin, "PUT", "/templates/"+id, body, 204, "")
	w.Expect(1, shop, "DELETE", "/templates/"+id, "", 204, "") // it is still the shop's
	w.Expect(1, admin, "DELETE", "/templates/"+create(t, w, bank, body), "", 204, "")

	refused = "The default template is shared by all clients. Changing it requires the scope notifications.admin."
	for _, path := range []string{"/default_template", "/templates/default"} {
		w.Expect(1, shop, "PUT", path, body, 403, refused)
		w.Expect(1, admin, "PUT", path, body, 204, "")
	}
	// The creator of older templates is not known.
	if err := w.Store.CreateTemplate(t.Context(), notify.Template{ID: "old", Name: "old", HTML: "h"}); err != nil {
		t.Fatal(err)
	}
	w.Expect(1, shop, "DELETE", "/templates/old", "", 403,
		`The template "old" was created by another client. Changing or deleting it requires the scope notifications.admin.`)
	w.Expect(1, admin, "DELETE", "/templates/old", "", 204, "")
}
