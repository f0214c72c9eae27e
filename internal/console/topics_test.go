package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"ingot/internal/console/pagetest"
)

const aGUID = "4f1c2a7e-0000-4000-8000-000000000001"

func newTopics() *service {
	const members = `{"subscribers":[{"user":"` + aGUID + `","since":"2026-11-19T12:00:00Z"},
		{"email":"` + hostileJSON + `@example.org","since":"2026-11-19T12:00:00Z"}],
		"_links":{"next":{"href":"/topics/releases/subscribers?after=0a%2Fb&limit=50"}}}`
	return &service{answers: map[string]string{
		"GET /topics?limit=50": `{"topics":[{"name":"releases","client_id":"ingot-console","description":"` + hostileJSON + `",
			"self_subscribe":true,"subscribers":7}],"_links":{"next":{"href":"/topics?after=releases&limit=50"}}}`,
		"GET /topics?client_id=shop&limit=50": `{"topics":[{"name":"theirs","client_id":"shop"}]}`,
		"GET /topics/releases":                `{"name":"releases","client_id":"ingot-console","description":"` + hostileJSON + `","subscribers":7}`,
		"GET /topics/theirs?client_id=shop":   `{"name":"theirs","client_id":"shop","subscribers":2}`,
		"GET /topics/theirs/subscribers":      members,
		"GET /topics/releases/subscribers":    members,
		"PUT /topics/releases":                "", "PUT /topics/new.one": "", "DELETE /topics/theirs?client_id=shop": "",
		"DELETE /topics/releases": "", "DELETE /topics/releases/subscribers/mailto:a@b.example": "",
		"POST /topics/releases/subscribers": `{"subscribed":1,"already":0,"left":0}`,
	}}
}

// TestTopics lists topics and their subscribers in pages, and changes both.
func TestTopics(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	w.API.HandleFunc("GET /v3/users", func(rw http.ResponseWriter, r *http.Request) {
		found := ""
		if r.URL.Query().Get("usernames") == "ann" {
			found = `{"guid":"` + aGUID + `"}`
		}
		fmt.Fprintf(rw, `{"pagination":{"total_results":1},"resources":[%s]}`, found)
	})
	api := newTopics()
	api.serve(w, everyScope...)
	const at = "/notifications/topics"
	status, text := w.Get(Path + at)
	has(t, "the list", status, http.StatusOK, text, `href="/console/notifications/topics/releases"`, `id="declare"`,
		`href="/console/notifications/topics?after=releases"`, `data-label="Subscribers">7<`)
	status, text = w.Get(Path + at + "?client=shop")
	has(t, "those of a client", status, http.StatusOK, text, `href="/console/notifications/topics/theirs?client=shop"`)
	status, text = w.Get(Path + at + "/releases?after=ff")
	has(t, "a topic", status, http.StatusOK, text, "7 subscribers", "<code>"+aGUID, "@example.org", "Subscribe</button>",
		`href="/console/notifications/topics/releases?after=0a%2Fb"`, "--topic releases", `/recipients?user=`+aGUID)
	if !api.was("GET /topics/releases/subscribers?after=ff&limit=50") {
		t.Errorf("asked %q", api.asked)
	}
	status, text = w.Get(Path + at + "/theirs?client=shop")
	has(t, "a topic of a client", status, http.StatusOK, text, "Only the client shop changes this topic",
		"/topics/theirs?after=0a%2Fb&amp;client=shop", "?client_id=shop")
	for _, not := range []string{"Subscribe</button>", "/theirs/change", "/theirs/remove"} {
		if strings.Contains(text, not) {
			t.Errorf("a topic of another client has %s", not)
		}
	}

	answer := func(text string) { api.answers["POST /topics/releases/subscribers"] = text }
	for _, test := range []struct {
		path   string
		form   url.Values
		answer string
		status int
		want   string // of the page, or where the browser is sent
		asked  string
	}{
		{"", url.Values{"name": {"new.one"}, "description": {" d "}}, "", 303, "/new.one?said=topic",
			`PUT /topics/new.one {"description":"d","self_subscribe":false}`},
		{"", url.Values{"name": {"releases"}}, "", 409, "There is a topic releases already", ""},
		{"", url.Values{}, "", 422, "needs a name", ""},
		{"/releases/change", url.Values{"self": {"1"}}, "", 303, "/releases?said=topic",
			`PUT /topics/releases {"description":"","self_subscribe":true}`},
		{"/releases/subscribe", url.Values{"user": {"ann"}}, `{"subscribed":1}`, 303, "/releases?said=subscribed",
			`POST /topics/releases/subscribers {"subscribers":[{"user":"` + aGUID + `"}]}`},
		{"/releases/subscribe", url.Values{"email": {"a@b.example"}}, `{"already":1}`, 303, "/releases?said=subscribed-before",
			`POST /topics/releases/subscribers {"subscribers":[{"email":"a@b.example"}]}`},
		{"/releases/subscribe", url.Values{"email": {"<b>@c"}}, `{"left":1}`, 409, "&lt;b&gt;@c left this topic", ""},
		{"/releases/subscribe", url.Values{"user": {"eve"}}, "", 422, "There is no user eve", ""},
		{"/releases/subscribe", url.Values{"user": {"ann"}, "email": {"x"}}, "", 422, "either a user or an address", ""},
		{"/releases/subscribe", url.Values{}, "", 422, "either a user or an address", ""},
		{"/releases/subscribe", url.Values{"email": {"x"}}, "422: not a valid <b>address", 422, "valid &lt;b&gt;address", ""},
		{"/releases/remove", url.Values{"user": {""}, "email": {"a@b.example"}}, "", 303, "/releases?said=removed-subscriber",
			"DELETE /topics/releases/subscribers/mailto:a@b.example"},
		{"/releases/delete", url.Values{"confirm": {"x"}, "client": {"ingot-console"}}, "", 422,
			"Type the name releases", ""},
		{"/theirs/delete", url.Values{"confirm": {"x"}, "client": {"shop"}}, "", 422, "Only the client shop", ""},
		{"/theirs/delete", url.Values{"confirm": {"theirs"}, "client": {"shop"}}, "", 303, "?said=topic-deleted",
			"DELETE /topics/theirs?client_id=shop"},
		{"/releases/delete", url.Values{"confirm": {"releases"}, "client": {"ingot-console"}}, "", 303, "?said=topic-deleted",
			"DELETE /topics/releases"},
	} {
		if test.answer != "" {
			answer(test.answer)
		}
		status, text, to := submit(t, w, at+test.path, test.form)
		if status != test.status || status == http.StatusSeeOther && to != Path+at+test.want {
			t.Errorf("%s %v: %d %s\n%s", test.path, test.form, status, to, shortened(text))
		}
		if status != http.StatusSeeOther {
			has(t, test.path, status, test.status, text, test.want, `role="alert"`)
		}
		if test.asked != "" && !api.was(test.asked) {
			t.Errorf("%s: not asked %s, but %q", test.path, test.asked, api.asked)
		}
	}
}

// TestTopicsOfOthers shows what a user may not do without forms for it.
func TestTopicsOfOthers(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	api := newTopics()
	api.serve(w, "notifications.write")
	status, text := w.Get(Path + "/notifications/topics")
	has(t, "the list", status, http.StatusOK, text, "releases")
	status, topic := w.Get(Path + "/notifications/topics/releases")
	has(t, "a topic", status, http.StatusOK, topic, "Subscribe</button>")
	for _, not := range []string{`id="declare"`, `name="client"`, "/releases/change", "danger", "/recipients?"} {
		if strings.Contains(text+topic, not) {
			t.Errorf("a user who may only send is offered %s", not)
		}
	}
	api.serve(w, "notification_templates.read")
	for _, path := range []string{"", "/releases"} {
		status, text = w.Get(Path + "/notifications/topics" + path)
		has(t, path, status, http.StatusForbidden, text, "You need the scope notifications.manage")
	}
}
