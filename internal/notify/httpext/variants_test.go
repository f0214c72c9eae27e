package httpext_test

import (
	"strings"
	"testing"

	"ingot/internal/notify/apitest"
)

// template creates one of version 1.
func template(t *testing.T, w *apitest.World, c, body string) string {
	t.Helper()
	var made map[string]string
	w.Expect(1, c, "POST", "/templates", body, 201, "").Into(&made)
	return made["template-id"]
}

func TestVariants(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	order := template(t, w, c, `{"name":"Order","subject":"Order","text":"{{number 1 .Data.n}} things","html":"<p>o</p>"}`)
	other := template(t, w, c, `{"name":"Other","html":"<p>x</p>"}`)
	before := w.Expect(1, c, "GET", "/templates/"+order, "", 200, "").Body
	path := "/templates/" + order + "/variants"
	w.Expect(1, c, "PUT", path+"/de", `{"subject":"Bestellung","text":"{{number 1 .Data.n}} Dinge"}`, 204, "")
	w.Expect(2, c, "PUT", path+"/PT_br", `{"subject":"Pedido"}`, 204, "")
	if a := w.Expect(1, c, "GET", path, "", 200, ""); a.Body != `{"variants":{"de":{"subject":"Bestellung","text":"{{number 1 .Data.n}} Dinge",`+
		`"html":""},"pt-BR":{"subject":"Pedido","text":"","html":""}}}`+"\n" {
		t.Error(a.Body)
	}
	if after := w.Expect(1, c, "GET", "/templates/"+order, "", 200, "").Body; after != before {
		t.Errorf("version 1 shows %s, and before %s", after, before)
	}
	for locale, want := range map[string][3]string{
		"de-CH": {"Bestellung", "1.234,5 Dinge", "de"}, "pt-BR": {"Pedido", "1.234,5 things", "pt-BR"},
		"pt": {"Order", "1.234,5 things", ""}, "": {"Order", "1,234.5 things", ""},
	} {
		var got struct{ Subject, Text, Variant string }
		w.Expect(1, c, "POST", "/templates/preview", `{"template_id":"`+order+`","locale":"`+locale+`","data":{"n":1234.5}}`,
			200, "").Into(&got)
		if got.Subject != want[0] || got.Text != want[1] || got.Variant != want[2] {
			t.Errorf("in %s it is %+v, want %q", locale, got, want)
		}
	}
	w.Expect(1, c, "POST", "/templates/preview", `{"template_id":"x"}`, 404, `Template with ID "x" could not be found`)
	w.Expect(1, c, "POST", "/templates/preview", `{"template_id":"x","template":{"text":"t"}}`, 422,
		`give either "template" or "template_id", not both`)

	for _, bad := range []struct {
		path, body string
		status     int
		want       string
	}{
		{path + "/de", `{}`, 422, `give at least one of`},
		{path + "/de", `{"text":"{{.Nope}}"}`, 422, "unknown variable"},
		{path + "/de", `{"text":"{{range .Data.a}}"}`, 422, "Text syntax is malformed"},
		{path + "/de", `{"color":"red"}`, 422, "Unknown field"},
		{path + "/not a tag", `{"text":"x"}`, 422, "is not a language tag"},
		{path + "/und", `{"text":"x"}`, 422, "is not a language tag"},
		{path + "/" + strings.Repeat("a-", 40), `{"text":"x"}`, 422, "is not a language tag"},
		{"/templates/none/variants/de", `{"text":"x"}`, 404, "could not be found"},
		{"/templates/default/variants/de", `{"text":"x"}`, 403, "requires the scope"},
	} {
		own := w.Client("shop", "notification_templates.write")
		bad.path = strings.ReplaceAll(bad.path, " ", "%20")
		if a := w.Expect(1, own, "PUT", bad.path, bad.body, bad.status, ""); !strings.Contains(a.Message(), bad.want) {
			t.Errorf("%s %s: %s, want %s", bad.path, bad.body, a.Body, bad.want)
		}
	}
	stranger := w.Client("stranger", "notification_templates.write", "notification_templates.read")
	w.Expect(1, stranger, "PUT", path+"/fr", `{"text":"x"}`, 403, "")
	w.Expect(1, w.Client("shop", "notification_templates.read"), "PUT", path+"/fr", `{"text":"x"}`, 403, "")
	w.Expect(1, c, "PUT", "/templates/default/variants/de", `{"text":"{{.Text}}"}`, 204, "") // an administrator
	w.Expect(1, c, "DELETE", "/templates/default/variants/de", "", 204, "")

	// Of version 2, only the owner knows.
	var v2 struct{ ID string }
	w.Expect(2, c, "POST", "/templates", `{"name":"t","text":"t"}`, 201, "").Into(&v2)
	w.Expect(2, c, "PUT", "/templates/"+v2.ID+"/variants/de", `{"text":"x"}`, 204, "")
	w.Expect(2, stranger, "GET", "/templates/"+v2.ID+"/variants", "", 404, "")

	missing := func(query, want string) {
		t.Helper()
		if a := w.Expect(1, c, "GET", "/missing_variants"+query, "", 200, ""); a.Body != want+"\n" {
			t.Errorf("missing%s: %s, want %s", query, a.Body, want)
		}
	}
	w.Expect(1, c, "PUT", "/clients/shop/notifications/news/template", `{"template":"`+order+`"}`, 204, "")
	w.Expect(1, c, "PUT", "/clients/shop/notifications/fire/template", `{"template":"`+other+`"}`, 204, "")
	missing("", `{"locales":["de","pt-BR"],"templates":[`+
		`{"template_id":"`+other+`","name":"Other","kinds":["fire"],"missing":["de","pt-BR"]},`+
		`{"template_id":"`+v2.ID+`","name":"t","kinds":[],"missing":["pt-BR"]}]}`)
	missing("?locales=de-AT,%20fr", `{"locales":["de-AT","fr"],"templates":[`+
		`{"template_id":"`+order+`","name":"Order","kinds":["news"],"missing":["fr"]},`+
		`{"template_id":"`+other+`","name":"Other","kinds":["fire"],"missing":["de-AT","fr"]},`+
		`{"template_id":"`+v2.ID+`","name":"t","kinds":[],"missing":["fr"]}]}`)
	w.Expect(1, c, "GET", "/missing_variants?locales=x", "", 422, "")
	w.Expect(1, c, "DELETE", path+"/de", "", 204, "")
	w.Expect(1, c, "DELETE", path+"/de", "", 404, `Variant with ID "de" could not be found`)
}
