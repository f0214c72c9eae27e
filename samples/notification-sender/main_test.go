package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"ingot/samples/internal/sample"
)

// service is a fake authorization server and notification service that records
// its requests. The end-to-end tests use the real ones.
type service struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
	// templates is the list of templates; fail is the path that fails.
	templates string
	fail      string
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{templates: "{}"}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.EscapedPath()+" "+string(body))
	switch {
	case r.URL.Path == s.fail:
		http.Error(w, `{"errors":["not this time"]}`, http.StatusUnprocessableEntity)
	case r.URL.Path == "/oauth/token" &&
		string(body) == "client_id=my+sender&client_secret=my%3Asecret&grant_type=client_credentials":
		fmt.Fprint(w, `{"access_token":"tok"}`)
	case r.Header.Get("Authorization") != "Bearer tok":
		http.Error(w, "who is this?", http.StatusUnauthorized)
	case r.Method == http.MethodPost && r.URL.Path == "/templates":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"template-id":"t-1"}`)
	case r.Method == http.MethodGet:
		fmt.Fprint(w, s.templates)
	case r.Method == http.MethodPut:
		w.WriteHeader(http.StatusNoContent)
	default:
		fmt.Fprint(w, `[{"status":"queued","recipient":"u-1","notification_id":"n-1"}]`)
	}
}

func (s *service) env(more ...string) func(string) string {
	all := map[string]string{"NOTIFICATIONS_URL": s.URL + "/", "AUTH_URL": s.URL, "CLIENT_ID": "my sender",
		"CLIENT_SECRET": "my:secret"}
	for i := 0; i+1 < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return func(name string) string { return all[name] }
}

// TestSend checks the four steps and their order.
func TestSend(t *testing.T) {
	t.Parallel()
	s := newService(t)
	var out bytes.Buffer
	if err := run(t.Context(), []string{"send", "--to", "user:u 1", "--subject", "Hi", "--text", "Hello", "--html",
		"<b>Hello</b>", "--reply-to", "a@b.org"}, s.env(), &out); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"POST /oauth/token client_id=my+sender&client_secret=my%3Asecret&grant_type=client_credentials",
		`PUT /notifications {"notifications":{"sample-news":{"critical":false,"description":"News of the sample app"}},"source_name":"Notification Sender"}`,
		"GET /templates ",
		`POST /templates {"html":`,
		`PUT /clients/my%20sender/notifications/sample-news/template {"template":"t-1"}`,
		`POST /users/u%201 {"html":"\u003cb\u003eHello\u003c/b\u003e","kind_id":"sample-news","reply_to":"a@b.org","subject":"Hi","text":"Hello"}`,
	}
	if !slices.EqualFunc(s.asked, want, strings.HasPrefix) {
		t.Errorf("asked %q", s.asked)
	}
	for _, line := range []string{"Registered the kind sample-news", "Created the template t-1", "Associated",
		"Sent to user:u 1: 1 notification", "n-1 queued u-1"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not said:\n%s", line, &out)
		}
	}
	// An existing template is used again.
	s.templates, s.asked = `{"default":{"name":"x"},"t-2":{"name":"`+defaultTemplate+`"}}`, nil
	out.Reset()
	if err := run(t.Context(), []string{"send", "--text", "Hello"}, s.env(), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "Found the template t-2") || len(s.asked) != 5 ||
		!strings.HasPrefix(s.asked[4], "POST /everyone ") {
		t.Errorf("the second time: %q\n%s", s.asked, &out)
	}
}

func TestRecipients(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"everyone": "/everyone", "user:a": "/users/a", "space:a/b": "/spaces/a%2Fb", "org:o": "/organizations/o",
		"scope:x.y":     "/uaa_scopes/x.y",
		"email:a@b.org": "/emails", "": "", "somebody": "", "user:": "", "team:a": "",
	} {
		path, body, err := message{To: to, Text: "t"}.request("k")
		if path != want || (err != nil) != (want == "") || (to == "email:a@b.org") != (body["to"] == "a@b.org") {
			t.Errorf("request to %q is %q %v, %v, want path %q", to, path, body, err, want)
		}
	}
	if _, _, err := (message{To: "everyone", Text: " "}).request("k"); err == nil {
		t.Error("a message without text is no failure")
	}
}

func TestFails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		env  []string
		fail string
		want string
	}{
		"no service":  {nil, []string{"NOTIFICATIONS_URL", ""}, "", "gives no NOTIFICATIONS_URL"},
		"no address":  {nil, []string{"AUTH_URL", "localhost"}, "", "AUTH_URL of the environment is no address"},
		"no password": {nil, nil, "", "PAGE_PASSWORD is not set"},
		"broken":      {nil, []string{"VCAP_SERVICES", "{"}, "", "VCAP_SERVICES"},
		"command":     {[]string{"sned"}, nil, "", `unknown command "sned"`},
		"flag":        {[]string{"send", "--nothing"}, nil, "", "nothing"},
		"left over":   {[]string{"send", "--text", "one", "two"}, nil, "", `"two" is left over`},
		"no text":     {[]string{"send"}, nil, "", "no text"},
		"wrong secret": {[]string{"send", "--text", "x"}, []string{"CLIENT_SECRET", "hush"}, "",
			"no token for the client my sender"},
		"registration": {[]string{"send", "--text", "x"}, nil, "/notifications",
			"the kind sample-news is not registered: PUT /notifications answers 422"},
		"template": {[]string{"send", "--text", "x"}, nil, "/templates", "no template"},
		"association": {[]string{"send", "--text", "x"}, nil, "/clients/my sender/notifications/sample-news/template",
			"not associated"},
		"send": {[]string{"send", "--text", "x"}, nil, "/everyone",
			`not sent: POST /everyone answers 422 Unprocessable Entity: {"errors":["not this time"]}`},
		"help": {[]string{"send", "--help"}, nil, "", "<nil>"},
		"service's alone": {nil, []string{"VCAP_SERVICES",
			`{"user-provided":[{"name":"n","credentials":{"notifications_url":"http://x"}}]}`}, "",
			"the service n gives no AUTH_URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			s.fail = test.fail
			err := run(t.Context(), test.args, s.env(test.env...), io.Discard)
			if got := fmt.Sprint(err); !strings.Contains(got, test.want) || strings.Contains(got, "hush") ||
				strings.Contains(got, "my:secret") {
				t.Errorf("%s\nwant %s", got, test.want)
			}
		})
	}
}

// TestBoundService reads the credentials from a bound service.
func TestBoundService(t *testing.T) {
	t.Parallel()
	credentials, err := json.Marshal(map[string]any{"user-provided": []any{
		map[string]any{"name": "other", "credentials": map[string]any{"url": "x"}},
		map[string]any{"name": "n", "credentials": map[string]any{"notifications_url": "http://n", "auth_url": "https://a/",
			"client_id": "i", "client_secret": "s"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := configured(newService(t).env("VCAP_SERVICES", string(credentials), "NOTIFICATION_KIND", "k"))
	if err != nil || *c != (settings{"http://n", "https://a", "i", "s", "k", defaultSource}) {
		t.Errorf("settings are %+v, %v, want those of the service and kind k", c, err)
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	s := newService(t)
	c, err := configured(s.env())
	if err != nil {
		t.Fatal(err)
	}
	h := handler(newSender(c), sample.NewLogin(pageUser, "pw"))
	call := func(method, path, password string, form url.Values, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if password != "" {
			r.SetBasicAuth(pageUser, password)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	if w := call(http.MethodGet, "/", "pw", nil); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), `action="/send"`) {
		t.Errorf("the page: %d %s", w.Code, w.Body)
	}
	form := url.Values{"to": {"everyone"}, "subject": {"Hi"}, "text": {"Hello <b>"}}
	for _, password := range []string{"", "wrong"} {
		if w := call(http.MethodPost, "/send", password, form); w.Code != http.StatusUnauthorized {
			t.Errorf("password %q: %d", password, w.Code)
		}
	}
	if w := call(http.MethodPost, "/send", "pw", form, "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden {
		t.Errorf("from another site: %d", w.Code)
	}
	if len(s.asked) > 0 {
		t.Errorf("something was sent: %q", s.asked)
	}
	if w := call(http.MethodPost, "/send", "pw", form); w.Code != http.StatusOK ||
		!strings.Contains(w.Body.String(), "<li>Sent to everyone") || !strings.Contains(w.Body.String(), "Hello &lt;b&gt;") {
		t.Errorf("sent: %d %s", w.Code, w.Body)
	}
	if w := call(http.MethodPost, "/send", "pw",
		url.Values{"to": {"nobody"}, "text": {"x"}}); w.Code != http.StatusBadRequest {
		t.Errorf("without a recipient: %d", w.Code)
	}
	s.mu.Lock()
	s.fail = "/everyone"
	s.mu.Unlock()
	if w := call(http.MethodPost, "/send", "pw", form); w.Code != http.StatusBadGateway ||
		!strings.Contains(w.Body.String(), "not this time") {
		t.Errorf("a failure: %d %s", w.Code, w.Body)
	}
}
