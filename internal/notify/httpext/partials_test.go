package httpext_test

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/notify/apitest"
)

func TestPartials(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	put := func(name, body string, status int, want string) {
		t.Helper()
		if a := w.Expect(1, c, "PUT", "/partials/"+name, body, status, ""); !strings.Contains(a.Message(), want) {
			t.Errorf("%s %s: %s, want %s", name, body, a.Body, want)
		}
	}
	put("layout", `{"text":"Shop\n{{block \"content\" .}}{{end}}\n{{template \"footer\" .}}","html":"<h1>Shop</h1>{{block \"content\" .}}{{end}}"}`,
		422, `there is no partial "footer"`)
	put("footer", `{"text":"Bye","variants":{"DE":{"text":"Tschüss"}}}`, 204, "")
	put("layout", `{"text":"Shop\n{{block \"content\" .}}{{end}}\n{{template \"footer\" .}}","html":"<h1>Shop</h1>{{block \"content\" .}}{{end}}"}`,
		204, "")
	order := template(t, w, c, `{"name":"Order","subject":"o","text":"{{template \"layout\" .}}{{define \"content\"}}{{.Data.n}}{{end}}",`+
		`"html":"{{template \"layout\" .}}{{define \"content\"}}<b>{{.Data.n}}</b>{{end}}"}`)
	preview := func(locale, want string) {
		t.Helper()
		var got struct{ Text, HTML string }
		w.Expect(2, c, "POST", "/templates/preview", `{"template_id":"`+order+`","locale":"`+locale+`","data":{"n":"<7>"}}`, 200, "").Into(&got)
		if got.Text != want || !strings.Contains(got.HTML, "<h1>Shop</h1><b>&lt;7&gt;</b>") {
			t.Errorf("in %s it is %+v, want %q", locale, got, want)
		}
	}
	preview("", "Shop\n<7>\nBye")
	preview("de-AT", "Shop\n<7>\nTschüss")

	for _, bad := range []struct{ name, body, want string }{
		{"footer", `{}`, `give at least one of`},
		{"footer", `{"text":"{{template \"layout\" .}}"}`, `"footer" uses itself`},
		{"footer", `{"html":"x"}`, `would break the partial "layout": Text`},
		{"footer", `{"text":"x","color":"red"}`, "Unknown field"},
		{"footer", `{"text":"x","variants":{"und":{"text":"x"}}}`, "is not a language tag"},
		{"footer", `{"text":"x","variants":{"de":{}}}`, "needs at least one of"},
		{"footer", `{"text":"x","variants":{"pt-BR":{"text":"x"},"pt_br":{"text":"y"}}}`, "given twice"},
		{"footer", `{"text":"` + strings.Repeat("x", 70_000) + `"}`, "65536 bytes"},
		{"footer", `{"text":"{{.Nope}}"}`, "would break"},
		{"layout", `{"text":"no block","html":"no block"}`, `would break the template "Order"`},
		{"a%20b", `{"text":"x"}`, "a partial's name"},
		{strings.Repeat("a", 65), `{"text":"x"}`, "a partial's name"},
	} {
		if a := w.Expect(1, c, "PUT", "/partials/"+bad.name, bad.body, 422, ""); !strings.Contains(a.Message(), bad.want) {
			t.Errorf("%s %.80s: %s, want %s", bad.name, bad.body, a.Body, bad.want)
		}
	}
	var checked struct {
		Problems []struct {
			Partial      string
			Line, Column int
		}
	}
	put("other", `{"text":"one\n  {{.Nope}}"}`, 204, "")
	w.Expect(1, c, "POST", "/templates/check", `{"text":"{{template \"other\" .}}"}`, 200, "").Into(&checked)
	if len(checked.Problems) != 1 || fmt.Sprint(checked.Problems[0]) != "{other 2 5}" {
		t.Errorf("checked: %+v", checked)
	}
	w.Expect(1, c, "POST", "/templates", `{"name":"x","html":"{{template \"layout\"}}{{define \"nope\"}}{{end}}"}`, 422, "")
	w.Expect(2, c, "POST", "/templates", `{"name":"x","text":"{{template \"none\"}}"}`, 422, "")
	var v2 struct{ ID string }
	w.Expect(2, c, "POST", "/templates", `{"name":"x","text":"{{template \"footer\"}}"}`, 201, "").Into(&v2)
	w.Expect(2, c, "PUT", "/templates/"+v2.ID, `{"text":"{{template \"none\"}}"}`, 422, "")
	w.Expect(2, c, "PUT", "/templates/"+v2.ID, `{"text":"{{template \"other\" .Data}}"}`, 200, "")
	w.Expect(1, c, "PUT", "/templates/"+order+"/variants/fr", `{"text":"{{template \"none\"}}"}`, 422, "")

	testPartialUsers(t, w, c, order)
}

func testPartialUsers(t *testing.T, w *apitest.World, c, order string) {
	t.Helper()
	a := w.Expect(1, c, "GET", "/partials", "", 200, "")
	for _, want := range []string{`{"name":"footer","shared":false,"blocks":[],"locales":["de"],`, `{"name":"layout","shared":false,"blocks":["content"],`} {
		if !strings.Contains(a.Body, want) {
			t.Errorf("the list is %s, want %s", a.Body, want)
		}
	}
	a = w.Expect(1, c, "GET", "/partials/layout", "", 200, "")
	if want := `"used_by":[{"template_id":"` + order + `","name":"Order","client_id":"shop"}]`; !strings.Contains(a.Body, want) {
		t.Errorf("%s, want %s", a.Body, want)
	}
	a = w.Expect(1, c, "DELETE", "/partials/layout", "", 422, "")
	if !strings.Contains(a.Body, order) {
		t.Error(a.Body)
	}
	stranger := w.Client("stranger", "notification_templates.write", "notification_templates.read")
	w.Expect(1, stranger, "GET", "/partials/layout", "", 404, "")
	w.Expect(1, stranger, "DELETE", "/partials/layout", "", 404, "")
	w.Expect(1, w.Client("shop", "notification_templates.read"), "PUT", "/partials/x", `{"text":"x"}`, 403, "")
	w.Expect(1, stranger, "PUT", "/partials/x?shared=true", `{"text":"x"}`, 403, "")
	w.Expect(1, stranger, "PUT", "/partials/x?shared=yes", `{"text":"x"}`, 422, "")
	w.Expect(1, c, "PUT", "/partials/legal?shared=true", `{"text":"Legal"}`, 204, "") // an administrator
	w.Expect(1, stranger, "GET", "/partials/legal", "", 200, "")
	strange := template(t, w, stranger, `{"name":"S","html":"<p>","text":"{{template \"legal\"}}"}`)
	if a := w.Expect(1, c, "DELETE", "/partials/legal?shared=true", "", 422, ""); !strings.Contains(a.Body, strange) {
		t.Error(a.Body)
	}
	w.Expect(1, stranger, "DELETE", "/templates/"+strange, "", 204, "")
	w.Expect(1, c, "DELETE", "/partials/legal?shared=true", "", 204, "")
	w.Expect(1, c, "DELETE", "/templates/"+order, "", 204, "")
	w.Expect(1, c, "DELETE", "/partials/layout", "", 204, "")
	w.Expect(1, c, "DELETE", "/partials/footer", "", 204, "")
}
