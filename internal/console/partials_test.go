package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"ingot/internal/console/pagetest"
)

func newPartials() *service {
	return &service{answers: map[string]string{
		"GET /partials": `{"partials":[{"name":"footer","shared":true,"blocks":["content"],"locales":["de"]},{"name":"mine"}]}`,
		"GET /partials/footer?shared=true": `{"name":"footer","shared":true,"blocks":["content"],"text":"Your ` + hostileJSON +
			`","html":"</textarea>` + hostileJSON + `","variants":{"de":{"text":"Dein Laden","html":""}},"used_by":[
			{"template_id":"t","name":"Sale ` + hostileJSON + `","client_id":"shop"},{"partial":"layout","name":"layout"},
			{"template_id":"w","name":"Week"},{"template_id":"gone","name":"Gone"}]}`,
		"GET /partials/mine":                  `{"name":"mine","text":"m"}`,
		"GET /partials/own":                   `{"name":"own","shared":true,"text":"m"}`,
		"GET /templates":                      `{"t":{"name":"Sale"}}`,
		"PUT /partials/footer?shared=true":    "",
		"PUT /partials/own":                   "",
		"DELETE /partials/mine":               "",
		"DELETE /partials/footer?shared=true": `422: The partial "footer" is in use by the template "Sale" (t).`,
	}}
}

// TestPartials lists partials, shows what uses one, and creates, changes and deletes them.
func TestPartials(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	api := newPartials()
	api.serve(w, "notification_templates.read", "notification_templates.write", "notifications.admin")
	const at = "/notifications/partials"
	status, text := w.Get(Path + at)
	has(t, "the list", status, http.StatusOK, text, `href="/console/notifications/partials/footer?shared=true"`,
		`href="/console/notifications/partials/mine"`, "all clients", ">content<", ">de<")
	status, text = w.Get(Path + at + "/footer?shared=true")
	has(t, "a partial", status, http.StatusOK, text, "Dein Laden", "&lt;/textarea&gt;", `name="locale" value="de"`,
		`href="/console/notifications/templates/t"`, `href="/console/notifications/partials/layout?shared=true"`,
		"of client shop", "<code>gone</code>", "In another language", "--set footer", "--shared")

	form := func(more url.Values) url.Values {
		all := url.Values{"text": {"Your shop\r\nhere"}, "html": {"<p>"}, "locale": {"de", "fr", ""},
			"locale_text": {"Dein", "", ""}, "locale_html": {"", "", ""}}
		for name, values := range more {
			all[name] = values
		}
		return all
	}
	status, _, to := submit(t, w, at+"/footer/save", form(url.Values{"shared": {"1"}}))
	if status != http.StatusSeeOther || to != Path+at+"/footer?shared=true&said=partial" || !api.was(
		`PUT /partials/footer?shared=true {"html":"\u003cp\u003e","text":"Your shop\nhere","variants":{"de":{"text":"Dein","html":""}}}`) {
		t.Errorf("saving: %d %s, asked %q", status, to, api.asked)
	}
	// A new one of the console may have the name of a shared one, but not replace one by accident.
	status, text, _ = submit(t, w, at+"/save", form(url.Values{"name": {"mine"}}))
	has(t, "a name that is taken", status, http.StatusConflict, text, "There is a partial mine already", "Your shop\nhere",
		`role="alert"`)
	status, _, to = submit(t, w, at+"/save", form(url.Values{"name": {" own "}}))
	if status != http.StatusSeeOther || to != Path+at+"/own?said=partial" {
		t.Errorf("creating: %d %s, asked %q", status, to, api.asked)
	}
	for what, wrong := range map[string]url.Values{
		"no language": {"name": {"new"}, "locale": {""}, "locale_text": {"x"}, "locale_html": {""}},
		"twice":       {"name": {"new"}, "locale": {"de", "de"}, "locale_text": {"x", "y"}, "locale_html": {"", ""}},
		"no name":     {},
	} {
		status, text, _ = submit(t, w, at+"/save", form(wrong))
		has(t, what, status, http.StatusUnprocessableEntity, text, `role="alert"`, "Your shop\nhere")
	}
	api.answers["PUT /partials/footer?shared=true"] = "422: The partial would break \"Sale\": html, line 2, column 5: <b>"
	status, text, _ = submit(t, w, at+"/footer/save", form(url.Values{"shared": {"1"}}))
	has(t, "a change that breaks a template", status, http.StatusUnprocessableEntity, text, "line 2, column 5: &lt;b&gt;",
		"Your shop\nhere", "of client shop")
	status, text, _ = submit(t, w, at+"/footer/delete", url.Values{"shared": {"1"}})
	has(t, "a partial in use", status, http.StatusUnprocessableEntity, text, "is in use by the template", "Dein Laden")
	if status, _, to = submit(t, w, at+"/mine/delete", url.Values{}); to != Path+at+"?said=partial-deleted" {
		t.Errorf("deleting: %d %s", status, to)
	}
}

// TestPartialsOfOthers shows what a user may not change without forms for that.
func TestPartialsOfOthers(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	api := newPartials()
	const at = Path + "/notifications/partials"
	for _, test := range []struct {
		scope, path, want string
	}{
		{"notification_templates.read", "/mine", "requires the scope notification_templates.write"},
		{"notification_templates.write", "/footer?shared=true", "requires the scope notifications.admin"},
	} {
		api.serve(w, "notification_templates.read", test.scope)
		status, text := w.Get(at + test.path)
		has(t, test.scope, status, http.StatusOK, text, test.want)
		if strings.Contains(text, "<button>Save") || strings.Contains(text, "danger") {
			t.Errorf("with %s, %s can be changed", test.scope, test.path)
		}
	}
	api.serve(w, "notifications.write")
	for _, path := range []string{"", "/mine"} {
		status, text := w.Get(at + path)
		has(t, path, status, http.StatusForbidden, text, "You need the scope notification_templates.read")
	}
}
